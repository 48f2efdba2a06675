//! What each system under test makes of an option: effective, renamed, accepted without effect, unknown. Pure.
