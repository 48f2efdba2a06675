//! Loads on a cluster, by programs that are clients of it; what they say of themselves as numbers. Never starts a server.
