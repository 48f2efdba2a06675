//! Writes a report of a made-up study: `cargo run --release -p report --example demo DIRECTORY [pictures] [large | few | one-sigma]`.
//!
//! Nothing in it was measured. It shows every part of a report, the awkward ones too: long names, modelled devices,
//! failed and unsteady trials, a system that can't run a load yet.

#[path = "../tests/it/made_up/mod.rs"]
mod made_up;

use std::path::PathBuf;
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let directory = PathBuf::from(arguments.next().ok_or("name a directory to write to")?);
    let rest: Vec<String> = arguments.collect();
    let flag = |word: &str| rest.iter().any(|a| a == word);
    let size = match (flag("large"), flag("few")) {
        (true, _) => made_up::Size::LARGE,
        (_, true) => made_up::Size::FEW,
        _ => made_up::Size::SHORT,
    };
    let mut study = made_up::Study::new(size, 1);
    if flag("one-sigma") {
        study.design.rule = study::Rule::OneSigma;
    }
    let series = made_up::series;
    let began = Instant::now();
    let written = report::write(&directory, &study.input(&series), flag("pictures"))?;
    println!("{} and {} charts in {:.2?}", written.page.display(), written.charts, began.elapsed());
    print!("{}", report::text::percentages(&study.input(&series), false));
    Ok(())
}
