//! Checks `coprocessor/` and the guides for operators as they are: their contents are well-formed,
//! consistent, and work on a real HBase.
//!
//! | file | what |
//! |---|---|
//! | `guides` | the blocks of the guides |
//! | `settings` | XML, YAML and the role's template: well-formed, and the same settings everywhere |
//! | `shell_lines` | the lines for HBase's shell, parsed and performed |
//! | `console` | blocks of lines that need other machines |
//! | `cluster` | a real HBase with `coprocessor/hbase-site.xml` |
//! | `rights` | the errors for a user without permissions, on a cluster that checks them |
//! | `on_servers` | the effects of settings, lines and commands there |

#![allow(clippy::unwrap_used, reason = "a test that can't arrange its case has failed")]

mod cluster;
mod console;
mod guides;
mod on_servers;
mod rights;
mod settings;
mod shell_lines;
