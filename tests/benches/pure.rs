//! The pure parts that every job passes through, one by one:
//! `cargo bench -p jobq-tests --bench pure`.

use criterion::{Criterion, criterion_group, criterion_main};

fn parts(criterion: &mut Criterion) {
    for (name, part) in jobq::internals::pure::parts() {
        criterion.bench_function(name, |bencher| bencher.iter(&part));
    }
}

criterion_group!(benches, parts);
criterion_main!(benches);
