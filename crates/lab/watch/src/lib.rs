//! Watches processes and devices while a load runs, a sample a second. Never acts on them.
