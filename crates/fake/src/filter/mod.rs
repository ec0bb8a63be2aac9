//! Filters and comparators.
