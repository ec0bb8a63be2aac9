//! Processes whose wall clock is wrong, by a library that is loaded before the others.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// The variable that names the library.
pub const PRELOAD: &str = "LD_PRELOAD";
/// The variable that has the seconds by which the clock is ahead.
pub const SHIFT: &str = "CLOCK_SHIFT_SECONDS";

/// Compiles `clock_shift.c`, and returns the library.
pub fn compile(folder: &Path) -> PathBuf {
    let source = Path::new(env!("REPOSITORY")).join("tests/support/clock_shift.c");
    let library = folder.join("clock_shift.so");
    let status = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .args([&library, &source])
        .status()
        .expect("a C compiler, as cc");
    assert!(status.success());
    library
}
