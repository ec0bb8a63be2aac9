//! Servers, tables, `hbase:meta`, the registry and the master.
