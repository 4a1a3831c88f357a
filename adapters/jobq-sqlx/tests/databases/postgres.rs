//! PostgreSQL.

use crate::adapter::OnPostgres;

jobq_outbox_facts::facts!(OnPostgres);
