//! Prints models' own figures, tab-separated: what `tests/modelled.py` holds the shells against.
//!
//! `figures [--size BYTES] [--warm-up SECONDS] [--time SECONDS] [--think MICROSECONDS] [--pattern NAME] MODEL...`: think
//! is what the measuring program and the way to the device take of each request.

use devmodel::{Model, measure, standard_patterns};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (mut size, mut warm_up, mut time, mut think, mut wanted) = (80 << 30, 5e9, 20e9, 0.0, None);
    let (mut models, mut args) = (Vec::new(), std::env::args().skip(1));
    while let Some(arg) = args.next() {
        if !arg.starts_with("--") {
            models.push(arg);
            continue;
        }
        let value = args.next().ok_or("an option lacks its value")?;
        match arg.as_str() {
            "--size" => size = value.parse()?,
            "--warm-up" => warm_up = value.parse::<f64>()? * 1e9,
            "--time" => time = value.parse::<f64>()? * 1e9,
            "--think" => think = value.parse::<f64>()? * 1e3,
            "--pattern" => wanted = Some(value),
            _ => return Err(format!("unknown option {arg}").into()),
        }
    }
    println!("model\tpattern\trequests_s\tMB_s\tmean_us\tp50_us\tp99_us\tflush_us");
    for name in models {
        for (pattern_name, mut pattern) in standard_patterns() {
            if wanted.as_ref().is_some_and(|w| w != pattern_name) {
                continue;
            }
            (pattern.warm_up, pattern.time, pattern.think) = (warm_up as u64, time as u64, think as u64);
            let f = measure(&mut Model::named(&name, &[], size)?, &pattern);
            let (mb, us) = (f.bytes_per_second / 1e6, |nanos: u64| nanos as f64 / 1e3);
            let times =
                [us(f.mean), us(f.p50), us(f.p99), us(f.flush_mean)].map(|t| format!("{t:.1}")).join("\t");
            println!("{name}\t{pattern_name}\t{:.2}\t{mb:.2}\t{times}", f.iops);
        }
    }
    Ok(())
}
