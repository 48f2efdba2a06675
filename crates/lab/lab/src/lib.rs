//! Runs studies: the order of trials, resuming, progress, and the command line.
