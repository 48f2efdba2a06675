//! Writes a report of a made-up study: `cargo run --release -p report --example demo DIRECTORY [pictures]`.
//!
//! Nothing in it was measured. It shows every part of a report, the awkward ones too: long names, modelled devices,
//! failed and unsteady trials, a system that can't run a load yet.

#[path = "../tests/made_up/mod.rs"]
mod made_up;

use std::path::PathBuf;
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let directory = PathBuf::from(arguments.next().ok_or("name a directory to write to")?);
    let study = made_up::Study::new(made_up::Size::SHORT, 1);
    let series = made_up::series;
    let began = Instant::now();
    let written = report::write(&directory, &study.input(&series), arguments.next().is_some())?;
    println!("{} and {} charts in {:.2?}", written.page.display(), written.charts, began.elapsed());
    print!("{}", report::text::percentages(&study.input(&series), false));
    Ok(())
}
