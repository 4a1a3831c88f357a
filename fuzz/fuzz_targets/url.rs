#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| jobq::internals::properties::url(data));
