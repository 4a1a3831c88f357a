use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::job::BoxError;

const SHORT: Duration = Duration::from_millis(200);

fn secret(user: &str, valid_for: Option<u64>) -> Secret {
    let secret = Secret::password(user, "secret");
    valid_for.map_or(secret.clone(), |seconds| secret.expires_in(Duration::from_secs(seconds)))
}

/// An identity whose source answers this to the question of this number.
fn identity(
    answer: impl Fn(usize) -> Result<Secret, BoxError> + Send + Sync + 'static,
) -> (Identity, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let source = move || {
        let answer = answer(count.fetch_add(1, Ordering::SeqCst));
        async move { answer }
    };
    (Identity::new(CredentialsSource::new(source), Duration::from_secs(30)), asked)
}

/// An identity whose source gives these answers.
fn identity_of<const N: usize>(
    answers: [Result<Secret, BoxError>; N],
) -> (Identity, Arc<AtomicUsize>) {
    let answers = StdMutex::new(answers.into_iter().collect::<std::collections::VecDeque<_>>());
    identity(move |_| lock(&answers).pop_front().unwrap())
}

#[test]
fn credentials_are_renewed_after_two_thirds_of_their_time() {
    let since = Instant::now();
    let at = |seconds| since + Duration::from_secs(seconds);
    let held = |valid_for| Held { secret: secret("ann", valid_for), since };
    let table = [(Some(30), Some(20)), (Some(3), Some(2)), (Some(0), Some(1)), (None, None)];
    for (valid_for, renewal) in table {
        assert_eq!(held(valid_for).renewal(), renewal.map(at), "{valid_for:?}");
    }
    assert!(held(Some(30)).is_fresh(at(19)) && !held(Some(30)).is_fresh(at(20)));
    assert!(!held(None).is_fresh(since), "each connection asks");
    let endless = Secret::token("x").expires_in(Duration::MAX);
    assert_eq!(Held { secret: endless, since }.expires(), None);
}

#[test]
fn the_time_that_is_left_is_told() {
    let now = Instant::now();
    let second = Duration::from_secs(1);
    let table = [
        (now + 90 * second, "the ones in use expire in 1m30s"),
        (now, "the ones in use expired 0s ago"),
        (now - second, "the ones in use expired 1s ago"),
    ];
    for (expires, said) in table {
        assert_eq!(left(expires, now), said);
    }
}

#[tokio::test]
async fn connections_share_credentials_that_are_fresh() {
    for (valid_for, expected) in [(Some(3_600), 1), (None, 3)] {
        let (identity, asked) = identity(move |_| Ok(secret("ann", valid_for)));
        for _ in 0..3 {
            identity.fresh().await.unwrap();
        }
        assert_eq!(asked.load(Ordering::SeqCst), expected, "{valid_for:?}");
    }
    // One answer renews those of both connections.
    let (identity, asked) = identity(|_| Ok(secret("ann", Some(3_600))));
    let first = identity.fresh().await.unwrap();
    let (one, other) = tokio::join!(identity.newer(&first), identity.newer(&first));
    assert!(Arc::ptr_eq(&one.unwrap(), &other.unwrap()));
    assert_eq!(asked.load(Ordering::SeqCst), 2);
    // Credentials that the broker refused are not used again.
    let refused = identity.fresh().await.unwrap();
    identity.refused(&refused).await;
    identity.refused(&first).await;
    assert!(!Arc::ptr_eq(&refused, &identity.fresh().await.unwrap()));
    assert_eq!(asked.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn a_failure_is_told_until_the_source_answers() {
    let (identity, asked) = identity(|number| match number {
        1 => Err("it is sealed".into()),
        2 => panic!("no answer"),
        _ => Ok(secret("ann", Some(3_600))),
    });
    let held = identity.fresh().await.unwrap();
    assert!(identity.trouble().is_none());
    for (said, count) in [("it is sealed", 2), ("panicked: no answer", 3)] {
        for connection in ["publishing", "consuming"] {
            let error = identity.newer(&held).await.unwrap_err();
            assert!(error.to_string().contains(said), "{error}");
            assert_eq!(asked.load(Ordering::SeqCst), count, "{connection}");
        }
        let trouble = identity.trouble().unwrap().to_string();
        assert!(trouble.contains(said) && trouble.contains("expire in 59m"), "{trouble}");
        identity.asked.lock().await.failed = None; // as after a second
    }
    let newer = identity.newer(&held).await.unwrap();
    assert!(newer.has_user_of(&held) && identity.trouble().is_none());
    // A new connection asks, too.
    let (identity, _) = identity_of([Err("it is sealed".into()), Ok(secret("ann", None))]);
    identity.fresh().await.unwrap_err();
    assert!(identity.trouble().unwrap().to_string().ends_with("it is sealed"));
    identity.asked.lock().await.failed = None;
    identity.fresh().await.unwrap();
    assert!(identity.trouble().is_none());
}

#[tokio::test]
async fn a_source_that_does_not_answer_is_left_alone() {
    let endless = || std::future::pending::<Result<Secret, BoxError>>();
    let identity = Identity::new(CredentialsSource::new(endless), SHORT);
    let error = identity.fresh().await.unwrap_err();
    assert!(error.to_string().contains("did not answer within 200ms"), "{error}");

    // A thread cannot be stopped: the source is not asked again before it ends.
    let (asked, gate) = (Arc::new(AtomicUsize::new(0)), Arc::new(std::sync::Barrier::new(2)));
    let (count, closed) = (Arc::clone(&asked), Arc::clone(&gate));
    let blocking = move || {
        count.fetch_add(1, Ordering::SeqCst);
        closed.wait();
        async { Ok(secret("ann", None)) }
    };
    let identity = Identity::new(CredentialsSource::new(blocking), SHORT);
    for _ in 0..2 {
        let error = identity.fresh().await.unwrap_err();
        assert!(error.to_string().contains("did not answer within 200ms"), "{error}");
        identity.asked.lock().await.failed = None;
    }
    gate.wait();
    assert_eq!(identity.fresh().await.unwrap().secret().user(), "ann");
    assert_eq!(asked.load(Ordering::SeqCst), 1);
}
