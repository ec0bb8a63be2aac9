//! The checked-in messages match `schemas/proto`.
//!
//! `UPDATE=1 cargo test -p hbase-protocol --test codegen` generates them again after a change of the
//! schema. There is no build script, so a user of the package needs no protobuf compiler.

#![allow(clippy::unwrap_used)]

use std::{
    env, fs,
    path::{Path, PathBuf},
};

/// Returns the `.proto` files, sorted by name so that the result does not depend on the file
/// system.
fn schema(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "proto"))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no schema in {}", folder.display());
    files
}

fn generate(folder: &Path) -> String {
    let descriptors = protox::compile(schema(folder), [folder]).unwrap();
    let out = tempfile::tempdir().unwrap();
    prost_build::Config::new()
        .out_dir(out.path())
        // Cells and keys stay slices of their frame.
        .bytes(["."])
        // They contain a password.
        .skip_debug(["Token"])
        // A message that is short in an answer stays small in memory (`wire::parts` of the client).
        .boxed(".hbase.pb.Procedure.exception")
        .boxed(".hbase.pb.LockedResource.exclusive_lock_owner_procedure")
        // As doc comments, the schema's comments would be taken for examples.
        .disable_comments(["."])
        .compile_fds(descriptors)
        .unwrap();
    fs::read_to_string(out.path().join("hbase.pb.rs")).unwrap()
}

#[test]
fn the_generated_messages_are_current() {
    let root = Path::new(env!("REPOSITORY"));
    let target = root.join("crates/protocol/src/generated/hbase.pb.rs");
    let wanted = generate(&root.join("schemas/proto"));
    if env::var_os("UPDATE").is_some() {
        fs::write(&target, &wanted).unwrap();
    }
    let found = fs::read_to_string(&target).unwrap_or_default();
    assert!(
        found == wanted,
        "{} is not what the schema says; regenerate it with UPDATE=1 cargo test -p hbase-protocol --test codegen",
        target.display()
    );
}
