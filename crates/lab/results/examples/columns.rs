//! Prints docs/results.md.

fn main() {
    print!("{}", results::markdown());
}
