//! The writer's part of the control of pools: pauses, members, and questions to them.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use rusqlite::Connection;

use super::feed::Feed;
use super::inbox::Inbox;
use super::members::{Member, Members};
use super::{pauses, questions};
use crate::engine::{Controlled, Pause, PoolId};

/// The pauses of the namespace, and the members of the engine.
#[derive(Debug, Default)]
pub(super) struct Control {
    /// The `data_version` at the last look into the file; `None` if something may be new.
    version: Option<i64>,
    pauses: HashMap<String, Pause>,
    /// Whether the feeds may not know the pauses.
    is_untold: bool,
    members: Members,
    /// Whether the file may list other members and consumers than there are.
    is_unlisted: bool,
    /// The last question that was passed on to a member.
    heard: i64,
}

impl Control {
    pub(super) fn join(&mut self, member: Weak<Member>) {
        self.members.join(member);
        self.is_unlisted = true;
    }

    pub(super) fn leave(&mut self) {
        self.members.leave();
        self.is_unlisted = true;
    }

    /// Ends all memberships.
    pub(super) fn clear(&mut self) {
        self.members.clear();
        self.is_unlisted = true;
    }

    pub(super) fn has_members(&self) -> bool {
        !self.members.is_empty()
    }

    /// The member with this id, or all.
    pub(super) fn pools(&self, id: Option<PoolId>) -> Vec<Arc<dyn Controlled>> {
        self.members.pools(id)
    }

    /// Records that feeds were started or stopped.
    pub(super) fn feeds_changed(&mut self) {
        (self.is_untold, self.is_unlisted) = (true, true);
    }

    /// Records that this engine has changed a pause.
    pub(super) fn expect_news(&mut self) {
        self.version = None;
    }

    /// Keeps what the transaction listed.
    pub(super) fn committed(&mut self) {
        self.is_unlisted = false;
        self.members.committed();
    }

    /// Forgets what was read and written in a transaction that failed.
    pub(super) fn rolled_back(&mut self) {
        self.version = None;
        self.members.rolled_back();
    }

    /// How many jobs a feed may take: none while its queue is paused.
    pub(super) fn room(&self, feed: &Feed) -> usize {
        if self.pauses.contains_key(feed.name) { 0 } else { feed.room() }
    }

    /// Reads the pauses and passes questions on, if the file, which has this `data_version`, may have
    /// changed.
    pub(super) fn look(
        &mut self,
        connection: &Connection,
        version: i64,
        namespace: &str,
        owner: Option<i64>,
        (inbox, now): (&Inbox, i64),
    ) -> rusqlite::Result<()> {
        if self.version == Some(version) {
            return Ok(());
        }
        let pauses = pauses::all(connection, namespace)?;
        if pauses != self.pauses {
            self.pauses = pauses;
            self.feeds_changed();
        }
        if let Some(owner) = owner {
            for question in questions::unheard(connection, owner, self.heard, now)? {
                self.heard = question.number;
                let pool = self.members.pool(&question.pool);
                question.pass_on(pool, inbox);
            }
        }
        self.version = Some(version);
        Ok(())
    }

    /// Tells the feeds of pauses, after they were committed.
    pub(super) fn tell(&mut self, feeds: &mut [Feed]) {
        if std::mem::take(&mut self.is_untold) {
            for feed in feeds {
                feed.tell(self.pauses.get(feed.name));
            }
        }
    }

    pub(super) fn is_unlisted(&self) -> bool {
        self.is_unlisted
    }

    /// Lists the members and the consumers in the file, where they have changed.
    pub(super) fn list(
        &mut self,
        connection: &Connection,
        namespace: &str,
        owner: Option<i64>,
        feeds: &[Feed],
    ) -> rusqlite::Result<()> {
        let Some(owner) = owner.filter(|_| self.is_unlisted) else {
            return Ok(());
        };
        let takes = |feed: &&Feed| !self.pauses.contains_key(feed.name);
        let consumers = feeds.iter().filter(takes).map(|feed| feed.consumer.clone());
        self.members.list(connection, namespace, (owner, self.heard), consumers)
    }
}

/// A number that changes with each commit of another connection.
pub(super) fn data_version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))
}
