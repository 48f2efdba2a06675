//! Statistics of the lab: numbers in, judgements out. Pure: no files, no clock; random numbers come from a seed.
