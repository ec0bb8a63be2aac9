//! Bad input is rejected with an error that names the fault, before anything is sent where that is
//! possible, and always within the deadline.

mod addresses;
mod tables;
