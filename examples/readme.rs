//! The program of README.md, which `scripts/readme` runs.

include!("../tests/guides/readme/place_order.rs");
