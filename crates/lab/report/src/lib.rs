//! Results as one HTML file, charts and tables. Never measures, never changes results.
