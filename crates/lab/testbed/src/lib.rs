//! Clusters and the places their data live in: made fresh for a trial, taken down after it; leftovers removed. Never measures.
