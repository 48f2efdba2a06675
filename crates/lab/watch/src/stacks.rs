//! The text of `perf script` as stacks with their counts. Pure.
//!
//! Own code instead of a library: the ones there are have a licence that this project doesn't take.

use std::collections::BTreeMap;

use results::Stacks;

/// Different stacks at most; samples of others are counted as left out.
const STACKS_MAX: usize = 50_000;

/// Bytes of a frame's name at most: names of templates go on for pages.
const FRAME_MAX: usize = 400;

/// Stands below what was deeper than perf keeps of a stack.
const CUT: &str = "[cut]";

/// Folds the lines of `perf script -F comm,pid,ip,sym,dso` one at a time.
#[derive(Debug, Default)]
pub(crate) struct Folding {
    names: BTreeMap<u32, String>,
    stacks: Stacks,
    /// `process;thread` of the sample that is read.
    head: Option<String>,
    /// From the innermost.
    frames: Vec<String>,
    /// Whether the outermost frame so far can't be.
    cut: bool,
}

impl Folding {
    /// `names` are the servers' by process id.
    pub fn new(names: BTreeMap<u32, String>, hertz: u32) -> Self {
        Self { names, stacks: Stacks { hertz, ..Stacks::default() }, ..Self::default() }
    }

    /// Takes a line: `thread PID`, then a frame a line, indented, then an empty one.
    pub fn line(&mut self, line: &str) {
        if line.trim().is_empty() {
            self.end();
        } else if !line.starts_with([' ', '\t']) {
            self.end();
            self.head = self.named(line);
        } else if self.head.is_some() {
            match frame(line.trim()) {
                Some(name) => {
                    self.frames.push(name);
                    self.cut = false;
                }
                None => self.cut = true,
            }
        }
    }

    /// All that was read.
    pub fn finish(mut self) -> Stacks {
        self.end();
        self.stacks
    }

    fn named(&self, line: &str) -> Option<String> {
        let (thread, pid) = line.trim().rsplit_once(' ')?;
        let pid: u32 = pid.parse().ok()?;
        let process = self.names.get(&pid).map_or("other", String::as_str);
        Some(format!("{process};{}", plain(thread.trim())))
    }

    fn end(&mut self) {
        let Some(mut stack) = self.head.take() else { return };
        if std::mem::take(&mut self.cut) {
            self.frames.push(CUT.to_owned());
        }
        for name in self.frames.drain(..).rev() {
            stack.push(';');
            stack.push_str(&name);
        }
        if self.stacks.counts.len() >= STACKS_MAX && !self.stacks.counts.contains_key(&stack) {
            self.stacks.left_out += 1;
        } else {
            *self.stacks.counts.entry(stack).or_default() += 1;
        }
    }
}

/// The name of `ADDRESS SYMBOL (FILE)`: an unknown symbol is `[file]`, the kernel's end with `_[k]`. None where not even
/// the file is known: the stack was not unwound as far as that.
fn frame(line: &str) -> Option<String> {
    let (_, rest) = line.split_once(' ')?;
    let rest = rest.trim().replace(" (deleted))", ")");
    let (symbol, file) = rest.rsplit_once(" (").unwrap_or((&rest, ""));
    let file = file.trim_end_matches(')');
    let kernel =
        file.starts_with("[kernel") || (file.starts_with('[') && file != "[vdso]" && file != "[unknown]");
    let name = match symbol {
        "[unknown]" if file == "[unknown]" || file.is_empty() => return None,
        "[unknown]" => format!("[{}]", file.trim_matches(['[', ']']).rsplit('/').next().unwrap_or(file)),
        _ => plain(symbol),
    };
    Some(if kernel { format!("{name}_[k]") } else { name })
}

/// A name without what parts frames, and not too long.
fn plain(name: &str) -> String {
    let name = name.replace(';', ",");
    match name.char_indices().nth(FRAME_MAX) {
        Some((at, _)) => format!("{}…", &name[..at]),
        None => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folded(text: &str) -> Stacks {
        let mut folding = Folding::new([(17, "osd.0".to_owned())].into(), 99);
        text.lines().for_each(|line| folding.line(line));
        folding.finish()
    }

    const TEXT: &str = "\
tp osd tp 17 
\t          fbb069 <[u8; 4] as a::B>::encode (/usr/bin/ceph osd (deleted))
\t          fd063b main (/usr/bin/ceph-osd)

core-0 99 
\tffffffff81ffcb80 ip_output ([kernel.kallsyms])
\t          aa30ce [unknown] (/usr/lib/libc.so.6)
\tffffffffffffffff [unknown] ([unknown])

tp osd tp 17 
\t          fbb069 <[u8; 4] as a::B>::encode (/usr/bin/ceph-osd)
\t          fd063b main (/usr/bin/ceph-osd)
";

    #[test]
    fn equal_stacks_are_counted_together_from_the_outermost_frame() {
        let stacks = folded(TEXT);
        assert_eq!(stacks.counts["osd.0;tp osd tp;main;<[u8, 4] as a::B>::encode"], 2);
        assert_eq!(stacks.counts["other;core-0;[cut];[libc.so.6];ip_output_[k]"], 1);
        assert_eq!((stacks.counts.len(), stacks.samples(), stacks.hertz), (2, 3, 99));
    }

    #[test]
    fn words_that_are_no_stack_are_left_out() {
        assert_eq!(folded("\t 12 lonely (x)\nno pid here\n\t 1 a (b)\n\n\n").samples(), 0);
        assert_eq!(folded("a 1\n").counts["other;a"], 1, "a sample without a stack is one");
    }

    #[test]
    fn an_unknown_frame_within_a_stack_is_no_cut() {
        let text = "t 17\n\t1 leaf (/x)\n\t2 [unknown] ([unknown])\n\t3 root (/x)\n";
        assert_eq!(folded(text).counts["osd.0;t;root;leaf"], 1);
    }

    #[test]
    fn what_is_too_much_is_bounded_and_said() {
        let mut folding = Folding::new(BTreeMap::new(), 99);
        for i in 0..STACKS_MAX + 10 {
            folding.line("t 1");
            folding.line(&format!("\t1 f{i} (/x)"));
            folding.line("");
        }
        let stacks = folding.finish();
        assert_eq!((stacks.counts.len(), stacks.left_out), (STACKS_MAX, 10));
        assert!(plain(&"ä;".repeat(5000)).len() < FRAME_MAX * 2 + 8);
    }
}
