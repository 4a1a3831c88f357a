//! The schedules that clients have made.

use std::time::Duration;

use tokio::time::timeout;

use super::{Move, Moved};
use crate::engine::Seats;
use crate::error::{Error, ErrorKind, Result};
use crate::schedule::book::Book;
use crate::schedule::change;

/// How long a seat is waited for.
const SEAT: Duration = Duration::from_secs(2);
/// How long the next change of a seat is waited for.
const CHANGE: Duration = Duration::from_millis(50);

/// Moves the schedules of a queue, unless a pool of the source holds them. The times that pass until a
/// pool of the target has them count as missed.
pub(super) async fn take_along(plan: &Move, queue: &str, moved: &mut Moved) -> Result<()> {
    let Some(source) = plan.source.seats() else { return Ok(()) };
    if !source.exists(queue).await? {
        return Ok(());
    }
    let Ok(seat) = timeout(SEAT, source.take(queue)).await else {
        moved.held_schedules.push(queue.to_owned());
        return Ok(());
    };
    let (mut seat, now) = (seat?, plan.source.clock().now());
    let value = seat.value();
    let mut book = Book::open(queue, (&value.list, &value.position), now)?;
    while let Ok(next) = timeout(CHANGE, seat.next_change()).await {
        if let Ok(change) = change::read(&next?) {
            book.apply(change, now);
        }
    }
    let taken = book.take_made();
    if !taken.is_empty() {
        let target = target_seats(plan)?;
        for change in taken.iter().flatten() {
            target.change(queue, change::write(change)).await?;
        }
        seat.write_list(book.list()).await?;
        moved.schedules += taken.len() as u64;
    }
    seat.leave().await;
    Ok(())
}

fn target_seats(plan: &Move) -> Result<&dyn Seats> {
    plan.target.seats().ok_or_else(|| {
        let text = "the target does not support schedules; remove those of clients from the source";
        Error::new(ErrorKind::Unsupported, text)
    })
}
