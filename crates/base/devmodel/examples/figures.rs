//! Prints models' own figures: `cargo run --release -p devmodel --example figures [MODEL...]`.

use devmodel::{Model, measure, standard_patterns};

fn main() -> Result<(), devmodel::ModelError> {
    let mut models: Vec<String> = std::env::args().skip(1).collect();
    if models.is_empty() {
        models = ["disk-7200", "disk-7200-write-back", "raid0-of-4", "ssd"].map(str::to_owned).to_vec();
    }
    println!(
        "{:22} {:20} {:>10} {:>9} {:>9} {:>9} {:>9} {:>9}",
        "model", "pattern", "1/s", "MB/s", "mean us", "p50", "p99", "flush us"
    );
    for name in models {
        for (pattern_name, pattern) in standard_patterns() {
            let f = measure(&mut Model::named(&name, &[], 80 << 30)?, &pattern);
            let mb = f.bytes_per_second / 1e6;
            let us = |nanos: u64| nanos as f64 / 1e3;
            println!(
                "{name:22} {pattern_name:20} {:10.1} {mb:9.2} {:9.1} {:9.1} {:9.1} {:9.1}",
                f.iops,
                us(f.mean),
                us(f.p50),
                us(f.p99),
                us(f.flush_mean)
            );
        }
    }
    Ok(())
}
