//! One region: its cells, and what reads and writes do to them. No clock: callers pass the time.
