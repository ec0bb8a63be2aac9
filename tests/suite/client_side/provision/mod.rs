//! Plans that several clients apply, or that failures interrupt.

mod concurrent;
mod faults;
