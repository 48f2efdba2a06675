//! The page: whole in itself, well formed, and whatever names hold, they are text.

use crate::made_up::{Size, Study, series};
use report::figures::{OVER_TIME_MAX, figures, shown_over_time};
use report::input::Input;
use report::page::html;
use results::Series;

const SMALL: Size = Size { systems: 4, variants: 5, workloads: 2, blocks: 2 };

fn page(input: &Input) -> String {
    html(input, &figures(input))
}

/// The page without what is no markup; it must then be XML too.
fn markup(page: &str) -> String {
    let mut text = page.to_string();
    for tag in ["style", "script"] {
        let from = text.find(&format!("<{tag}>")).unwrap();
        let to = text.find(&format!("</{tag}>")).unwrap();
        text.replace_range(from..to + tag.len() + 3, "");
        assert!(!text.contains(&format!("<{tag}")), "a second <{tag}>");
    }
    text
}

fn parse(markup: &str) -> roxmltree::Document<'_> {
    let options = roxmltree::ParsingOptions { allow_dtd: true, ..roxmltree::ParsingOptions::default() };
    roxmltree::Document::parse_with_options(markup, options).unwrap()
}

#[test]
fn the_page_is_well_formed_and_has_every_part() {
    let study = Study::new(SMALL, 1);
    let markup = markup(&page(&study.input(&series)));
    let document = parse(&markup);
    let parts: Vec<&str> = document
        .descendants()
        .filter(|n| n.has_tag_name("section"))
        .filter_map(|n| n.attribute("id"))
        .collect();
    let expected =
        ["about", "statistics", "percentages", "scatter", "bars", "a-b", "latency", "over-time", "trials"];
    assert_eq!(parts, expected);
    let templates =
        document.descendants().filter(|n| n.has_tag_name("template") && n.attribute("data-file").is_some());
    let variants =
        figures(&study.input(&series)).iter().filter(|f| f.kind == report::figures::Kind::Variant).count();
    assert_eq!(templates.count() + variants, figures(&study.input(&series)).len());
}

#[test]
fn the_page_names_no_address() {
    let page = page(&Study::new(SMALL, 1).input(&series));
    let page = page.replace("http://www.w3.org/2000/svg", "");
    for outside in
        ["http:", "https:", "//cdn", "src=", "@import", "url(", "<link", "<iframe", "fetch(", "XMLHttp"]
    {
        assert!(!page.contains(outside), "{outside}");
    }
}

#[test]
fn whatever_names_hold_they_are_text() {
    let evil = "\"'><script>alert(1)</script>\u{0}&amp;<b onmouseover='x'>";
    let mut study = Study::new(SMALL, 1);
    let was = study.outline.systems[0].clone();
    let bad = |s: &mut String| s.push_str(evil);
    bad(&mut study.outline.about);
    study.outline.changes.iter_mut().for_each(bad);
    study.outline.systems.iter_mut().for_each(bad);
    study.outline.workloads.iter_mut().for_each(|w| bad(&mut w.name));
    study.outline.variants.iter_mut().skip(1).for_each(|v| {
        bad(&mut v.name);
        bad(&mut v.parameter);
    });
    study.outline.not_yet = [((was + evil, "x".to_string() + evil), evil.to_string())].into();
    for r in &mut study.records {
        let p = &mut r.parameters;
        for text in
            [&mut p.system, &mut p.workload, &mut p.place, &mut p.store, &mut p.load, &mut r.outcome.error]
        {
            bad(text);
        }
        if p.variant != "default" {
            bad(&mut p.variant);
        }
        for text in
            [&mut r.build.server, &mut r.build.lab, &mut r.build.client, &mut r.outcome.logs, &mut r.id]
        {
            bad(text);
        }
        r.measurements.iter_mut().for_each(|m| {
            bad(&mut m.unsteady);
            m.steady = Some(false);
        });
    }
    study.cells.iter_mut().for_each(|(name, _)| {
        bad(&mut name.0);
        bad(&mut name.1);
    });
    let evil_series = |id: &str| {
        let mut s = series(id)?;
        s.samples.iter_mut().for_each(|s| {
            s.values.insert(format!("cpu.{evil}"), 9.0);
            bad(&mut s.phase);
        });
        Some(s)
    };
    let mut input = study.input(&evil_series);
    input.run.notes.iter_mut().for_each(bad);
    for text in
        [&mut input.run.title, &mut input.run.study, &mut input.run.machine.host, &mut input.run.started]
    {
        bad(text);
    }
    let page = page(&input);
    let markup = markup(&page);
    let document = parse(&markup);
    assert!(document.descendants().all(|n| !n.has_tag_name("b") || n.attributes().len() == 0));
    assert!(document.descendants().all(|n| n.attributes().all(|a| !a.name().starts_with("on"))));
    let title = document.descendants().find(|n| n.has_tag_name("h1")).unwrap().text().unwrap();
    assert!(title.contains("<script>alert(1)</script>\u{FFFD}&amp;<b"), "{title}");
    for figure in figures(&input) {
        roxmltree::Document::parse(&figure.svg).unwrap();
        assert!(
            figure.name.chars().all(|c| c.is_ascii_alphanumeric() || "._-+".contains(c)),
            "{}",
            figure.name
        );
    }
}

#[test]
fn failed_and_unsteady_trials_are_listed_with_their_logs() {
    let study = Study::new(Size::SHORT, 1);
    let page = page(&study.input(&series));
    for r in study.records.iter().filter(|r| !r.outcome.logs.is_empty()) {
        assert!(page.contains(&format!("<code>{}</code>", r.outcome.logs)));
    }
    assert!(page.contains("did not come up within 60 s") && page.contains("31% slower"));
    assert!(page.contains("✗ failed") && page.contains("nothing to tune") && page.contains("not yet"));
}

#[test]
fn phases_too_short_to_tell_are_never_called_steady_and_are_judged_together() {
    let mut study = Study::new(SMALL, 1);
    for m in study.records.iter_mut().flat_map(|r| &mut r.measurements) {
        (m.steady, m.unsteady) = (None, "too short to tell: 5 samples, 20 are needed".into());
    }
    // Every trial loses half of its rate on the way.
    let falls = |_: &str| {
        let sample = |i: u32| results::Sample {
            t: f64::from(i),
            phase: "write".into(),
            values: [("ops_per_s".to_string(), 1000.0 - 125.0 * f64::from(i))].into(),
        };
        Some(Series { samples: (0..5).map(sample).collect() })
    };
    let page = page(&study.input(&falls));
    assert!(page.contains("Too short to tell") && page.contains("changes: longer phases are needed"));
    assert!(page.contains("too few trials or samples to tell"), "reads have no samples here");
    assert!(!page.contains("steady on the whole"));
    assert!(!html(&Study::new(SMALL, 1).input(&series), &[]).contains("Too short to tell"));
}

#[test]
fn modelled_and_real_devices_are_labelled_and_never_compared() {
    let study = Study::new(Size { systems: 9, variants: 2, workloads: 1, blocks: 2 }, 1);
    let input = study.input(&series);
    let page = page(&input);
    let modelled = "modelled-disk-7200-raid0-of-6-write-back";
    assert!(
        !page.contains(&format!("data-a=\"{modelled}\""))
            && !page.contains(&format!("data-b=\"{modelled}\""))
    );
    assert!(page.contains(&format!("{modelled} (modelled devices)")));
    assert!(
        page.contains("can't be compared with real ones")
            || page.contains("can&#39;t be compared with real ones")
    );
}

#[test]
fn the_one_sigma_rule_tells_its_false_colours() {
    let mut study = Study::new(SMALL, 1);
    study.design.rule = study::Rule::OneSigma;
    let page = page(&study.input(&series));
    assert!(
        page.contains("ONE SIGMA") && page.contains("% false colours a comparison"),
        "the rate is missing"
    );
}

#[test]
fn a_page_without_any_trial_can_be_opened() {
    let none = |_: &str| -> Option<Series> { None };
    let mut study = Study::new(SMALL, 1);
    study.records.clear();
    study.cells.clear();
    let markup = markup(&page(&study.input(&none)));
    parse(&markup);
    assert!(markup.contains("Trials: 0"));
}

#[test]
fn of_many_trials_those_that_failed_are_shown_over_time_first() {
    let study = Study::new(Size::SHORT, 1);
    let input = study.input(&series);
    let shown = shown_over_time(&input);
    assert_eq!(shown.len(), OVER_TIME_MAX);
    let failed = |r: &&results::Record| r.outcome.status == results::Status::Failed;
    assert_eq!(shown.iter().copied().filter(failed).count(), input.records.iter().filter(failed).count());
}

#[test]
#[cfg_attr(debug_assertions, ignore = "a bound on time means something in release builds only")]
fn twenty_four_variants_on_nine_systems_take_less_than_a_second() {
    let study = Study::new(Size::LARGE, 1);
    let input = study.input(&series);
    let began = std::time::Instant::now();
    let page = page(&input);
    let took = began.elapsed();
    assert!(took.as_secs_f64() < 1.0, "{took:?} for {} bytes", page.len());
}
