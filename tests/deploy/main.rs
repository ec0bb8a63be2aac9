//! `coprocessor/` and the guides for operators, as they stand: what is written there is
//! well-formed, says the same in all places, and does on a real HBase what it says.
//!
//! | file | what |
//! |---|---|
//! | `guides` | the blocks of the guides |
//! | `settings` | XML, YAML and the role's template: well-formed, and the same settings everywhere |
//! | `shell_lines` | the lines for HBase's shell, read and done |
//! | `console` | blocks of lines that need machines of yours |
//! | `cluster` | a real HBase with `coprocessor/hbase-site.xml` |
//! | `rights` | what a user without rights is told, where they are checked |
//! | `on_servers` | what the settings, lines and commands do there |

#![allow(clippy::unwrap_used, reason = "a test that can't arrange its case has failed")]

mod cluster;
mod console;
mod guides;
mod on_servers;
mod rights;
mod settings;
mod shell_lines;
