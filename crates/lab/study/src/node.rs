//! YAML's events as a tree that keeps every text as written, with its place. Aliases are shared, never copied.

use std::collections::BTreeMap;
use std::rc::Rc;

use saphyr_parser::{Event, Parser, ScanError, Span};

use crate::problem::{At, ProblemKind, Problems};

/// Deepest nesting; no study needs more than eight.
const MAX_DEPTH: usize = 32;
/// Nodes with every alias counted as often as it is used, so that a few lines can't become gigabytes.
const MAX_NODES: u64 = 200_000;

/// A value with its place.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) at: At,
    pub(crate) value: Value,
    weight: u64,
}

#[derive(Debug)]
pub(crate) enum Value {
    /// As written, without its quotes; `absent` when nothing was written at all.
    Text {
        text: String,
        absent: bool,
    },
    List(Vec<Rc<Node>>),
    Map(Vec<Entry>),
}

/// A key and its value.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) at: At,
    pub(crate) key: String,
    pub(crate) node: Rc<Node>,
}

/// A list or map that is not complete yet.
struct Open {
    at: At,
    anchor: usize,
    map: bool,
    items: Vec<Rc<Node>>,
}

/// Reads a text; `None` (with a problem) if it is not one YAML document of texts, lists and maps.
pub(crate) fn read(text: &str, problems: &mut Problems) -> Option<Rc<Node>> {
    let mut tree = Tree { open: Vec::new(), anchors: BTreeMap::new(), root: None };
    for event in Parser::new_from_str(text) {
        if let Err((at, kind)) = event.map_err(syntax).and_then(|(event, span)| tree.take(event, span)) {
            problems.add(at, kind);
            return None;
        }
    }
    let empty = || ProblemKind::Empty("the study".into());
    match tree.root {
        Some(root) if matches!(root.value, Value::Text { absent: true, .. }) => {
            problems.add(root.at, empty());
            None
        }
        None => {
            problems.add(At { line: 1, column: 1 }, empty());
            None
        }
        root => root,
    }
}

type Fault = (At, ProblemKind);

fn syntax(error: ScanError) -> Fault {
    let at = at(error.marker().line(), error.marker().col());
    (at, ProblemKind::NotYaml(error.info().to_owned()))
}

fn at(line: usize, column_from_0: usize) -> At {
    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    At { line: number(line), column: number(column_from_0).saturating_add(1) }
}

struct Tree {
    open: Vec<Open>,
    anchors: BTreeMap<usize, Rc<Node>>,
    root: Option<Rc<Node>>,
}

impl Tree {
    fn take(&mut self, event: Event<'_>, span: Span) -> Result<(), Fault> {
        let at = at(span.start.line(), span.start.col());
        if let Event::Scalar(_, _, _, Some(_))
        | Event::SequenceStart(_, Some(_))
        | Event::MappingStart(_, Some(_)) = event
        {
            let what = "tags ('!...') mean nothing in a study: every value is taken as written";
            return Err((at, ProblemKind::NotUsed(what)));
        }
        match event {
            Event::Scalar(text, _, anchor, _) => {
                // An empty plain scalar is what YAML makes of `key:` without a value; its span is empty.
                let absent = text.is_empty() && span.is_empty();
                let value = Value::Text { text: text.into_owned(), absent };
                self.put(Node { at, value, weight: 1 }, anchor)
            }
            Event::Alias(anchor) => {
                let node = self.anchors.get(&anchor).cloned();
                let node =
                    node.ok_or((at, ProblemKind::NotUsed("an alias is not allowed inside its own anchor")))?;
                self.put_shared(node)
            }
            Event::SequenceStart(anchor, _) => self.begin(at, anchor, false),
            Event::MappingStart(anchor, _) => self.begin(at, anchor, true),
            Event::SequenceEnd | Event::MappingEnd => self.end(),
            Event::DocumentStart(_) if self.root.is_some() => {
                Err((at, ProblemKind::NotUsed("a file holds one study; this begins a second document")))
            }
            _ => Ok(()),
        }
    }

    fn begin(&mut self, at: At, anchor: usize, map: bool) -> Result<(), Fault> {
        if self.open.len() >= MAX_DEPTH {
            return Err((at, ProblemKind::NotUsed("this is nested deeper than any study needs")));
        }
        self.open.push(Open { at, anchor, map, items: Vec::new() });
        Ok(())
    }

    fn end(&mut self) -> Result<(), Fault> {
        let Some(open) = self.open.pop() else { return Ok(()) };
        let weight = open.items.iter().fold(1u64, |sum, n| sum.saturating_add(n.weight));
        if weight > MAX_NODES {
            let kind = ProblemKind::TooMany { what: "values", count: weight, limit: MAX_NODES };
            return Err((open.at, kind));
        }
        let value = if open.map { Value::Map(entries(open.items)?) } else { Value::List(open.items) };
        self.put(Node { at: open.at, value, weight }, open.anchor)
    }

    fn put(&mut self, node: Node, anchor: usize) -> Result<(), Fault> {
        let node = Rc::new(node);
        if anchor > 0 {
            self.anchors.insert(anchor, Rc::clone(&node));
        }
        self.put_shared(node)
    }

    fn put_shared(&mut self, node: Rc<Node>) -> Result<(), Fault> {
        match self.open.last_mut() {
            Some(open) => open.items.push(node),
            None => self.root = Some(node),
        }
        Ok(())
    }
}

/// Keys and values in turns, as entries.
fn entries(items: Vec<Rc<Node>>) -> Result<Vec<Entry>, Fault> {
    let mut entries = Vec::with_capacity(items.len() / 2);
    let mut items = items.into_iter();
    while let (Some(key), Some(node)) = (items.next(), items.next()) {
        let Value::Text { text, .. } = &key.value else {
            return Err((key.at, ProblemKind::NotUsed("a key must be a text")));
        };
        if text == "<<" {
            let what = "maps can't be merged with '<<': name an anchor's whole value with '*' instead";
            return Err((key.at, ProblemKind::NotUsed(what)));
        }
        entries.push(Entry { at: key.at, key: text.clone(), node });
    }
    Ok(entries)
}
