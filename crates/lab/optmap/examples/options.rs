//! Prints what every system of a study makes of its options: `cargo run -p optmap --example options -- STUDY.yaml`.

use std::process::ExitCode;

use optmap::{Process, Resolved, check};

fn main() -> ExitCode {
    let Some(path) = std::env::args().nth(1) else {
        eprintln!("usage: options STUDY.yaml");
        return ExitCode::from(2);
    };
    let study = match std::fs::read_to_string(&path).map(|text| study::parse(&text, &path)) {
        Ok(Ok(study)) => study,
        Ok(Err(problems)) => {
            problems.iter().for_each(|problem| eprintln!("{problem}"));
            return ExitCode::FAILURE;
        }
        Err(error) => {
            eprintln!("{path}: {error}");
            return ExitCode::FAILURE;
        }
    };
    let resolution = check(&study);
    for (at, (system, options)) in study.systems.iter().zip(&resolution.systems).enumerate() {
        println!("{}", system.name);
        options.default.iter().for_each(show);
        for (variant, (named, settings)) in study.variants.iter().zip(&options.variants).enumerate().skip(1) {
            let runs = !resolution.not_run.variants.contains(&(at, variant));
            println!("  {}{}", named.name, if runs { "" } else { ": nothing to tune" });
            settings.iter().for_each(show);
        }
    }
    resolution.problems.iter().for_each(|problem| println!("{path}, {problem}"));
    ExitCode::from(u8::from(!resolution.problems.is_empty()))
}

fn show(resolved: &Resolved) {
    let setting = &resolved.setting;
    let places: Vec<&str> = resolved.acts_in.iter().copied().map(Process::name).collect();
    let default = if resolved.at_default { ", its default" } else { "" };
    println!("    {} = {}: {} {}{default}", setting.name, setting.value, resolved.verdict, places.join("+"));
}
