//! The writer's part in the control of pools: pauses, pools, and questions to them.

use std::collections::HashMap;
use std::sync::Arc;

use rusqlite::Connection;

use super::pools::{List, Pools};
use super::{pauses, questions};
use crate::engine::Pause;
use crate::sqlite::feeds::{Feed, Feeds, Steering, View};
use crate::sqlite::inbox::Inbox;

/// The pauses of the namespace, and what the file lists of the engine.
pub(in crate::sqlite) struct Control {
    namespace: String,
    inbox: Inbox,
    pools: Arc<Pools>,
    /// The `data_version` at the last look into the file; `None` if something may be new.
    version: Option<i64>,
    pauses: HashMap<String, Pause>,
    /// Whether the feeds may not know the pauses.
    is_untold: bool,
    list: List,
    /// The last question that was passed on to a pool.
    heard: i64,
}

impl Control {
    pub(in crate::sqlite) fn new(namespace: String, inbox: Inbox, pools: Arc<Pools>) -> Self {
        let (pauses, list) = (HashMap::new(), List::default());
        Self { namespace, inbox, pools, version: None, pauses, is_untold: false, list, heard: 0 }
    }
}

impl Steering for Control {
    fn has_pools(&self) -> bool {
        !self.pools.is_empty()
    }

    fn look(&mut self, view: &View<'_>, feeds: &mut Feeds) -> rusqlite::Result<()> {
        if self.version != Some(view.version) {
            let pauses = pauses::all(view.connection, &self.namespace)?;
            if pauses != self.pauses {
                self.pauses = pauses;
                feeds.changed = true;
            }
            if let Some(owner) = view.owner {
                let unheard = questions::unheard(view.connection, owner, self.heard, view.now)?;
                for question in unheard {
                    self.heard = question.number;
                    question.pass_on(&self.pools, &self.inbox);
                }
            }
            self.version = Some(view.version);
        }
        if feeds.changed {
            self.is_untold = true;
            for feed in &mut feeds.all {
                feed.is_paused = self.pauses.contains_key(feed.name);
            }
        }
        Ok(())
    }

    fn expect_news(&mut self) {
        self.version = None;
    }

    fn list(&mut self, connection: &Connection, owner: i64, feeds: &Feeds) -> rusqlite::Result<()> {
        if !feeds.changed {
            return Ok(());
        }
        let takes = |feed: &&Feed| !self.pauses.contains_key(feed.name);
        let consumers = feeds.all.iter().filter(takes).map(|feed| feed.consumer.clone());
        let owner = (owner, self.heard);
        self.list.write(connection, &self.namespace, owner, &self.pools, consumers)
    }

    fn tell(&mut self, feeds: &mut Feeds) {
        if std::mem::take(&mut self.is_untold) {
            for feed in &mut feeds.all {
                feed.tell(self.pauses.get(feed.name));
            }
        }
    }

    fn ended(&mut self, is_committed: bool) {
        if is_committed {
            self.list.committed();
        } else {
            self.version = None;
            self.list.rolled_back();
        }
    }

    fn clear(&mut self) {
        self.pools.clear();
    }
}
