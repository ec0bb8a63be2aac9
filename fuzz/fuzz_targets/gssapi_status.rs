#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| hbase_client::fuzzing::gssapi_status(data));
