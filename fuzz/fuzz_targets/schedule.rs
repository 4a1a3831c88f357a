#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| jobq::internals::properties::schedule(data));
