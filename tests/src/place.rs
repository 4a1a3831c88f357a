//! Where a private node runs: its addresses, its epmd, and the network that it sees.

use std::net::Ipv4Addr;
use std::process::Command;

use serde::{Deserialize, Serialize};

use crate::port::free_port;

/// The place of one node.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Place {
    /// What follows the `@` in its name.
    pub(crate) host: String,
    /// Where it listens for clients.
    pub(crate) clients: Ipv4Addr,
    /// Where it listens for other nodes.
    pub(crate) nodes: Ipv4Addr,
    pub(crate) epmd_port: u16,
    /// Whether the epmd of that port is its own, and not that of another node.
    pub(crate) has_epmd: bool,
    /// A process whose network namespace it runs in, if that is not the test's.
    pub(crate) inside: Option<u32>,
}

impl Default for Place {
    /// On this machine, for itself.
    fn default() -> Self {
        Self {
            host: "localhost".to_owned(),
            clients: Ipv4Addr::LOCALHOST,
            nodes: Ipv4Addr::LOCALHOST,
            epmd_port: free_port(),
            has_epmd: true,
            inside: None,
        }
    }
}

impl Place {
    /// Whether its host is an address, so that nobody has to look up a name.
    pub(crate) fn has_long_name(&self) -> bool {
        self.host.contains('.')
    }

    /// The address for other nodes as Erlang writes it.
    pub(crate) fn interface(&self) -> String {
        format!("{{{}}}", self.nodes.octets().map(|octet| octet.to_string()).join(","))
    }

    /// A command that sees the node's network.
    pub(crate) fn command(&self, program: &str) -> Command {
        let Some(process) = self.inside else {
            return Command::new(program);
        };
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/proc/{process}/ns/net")).arg("--").arg(program);
        command
    }
}
