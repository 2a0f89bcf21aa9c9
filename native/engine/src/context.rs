//! One event while it is judged: what several rules ask is worked out once, and only where one asks.

use std::cell::OnceCell;

use crate::analysis::effects::Intent;
use crate::analysis::intents::intents;
use crate::detectors::egress::hosts_of_call;
use crate::detectors::hosts::{normal_host, NoHost};
use crate::detectors::indicator::{Kind, Named};
use crate::detectors::together::Together;
use crate::touched::leading;
use crate::value::Event;

const ONLY_THE_SHELL_KNOWS: char = '\u{2026}'; // in a target; no host has it

/// An event, and what is known of it.
#[derive(Debug)]
pub struct Context<'e, 'a> {
    /// The event as it stands now.
    pub event: &'e Event<'a>,
    /// Whether a result that was no mapping stands under the key "result".
    pub wrapped: bool,
    intents: OnceCell<Vec<Intent>>,
    hosts: OnceCell<Hosts>,
    files: OnceCell<Named>,
    public: OnceCell<Named>,
    servers: OnceCell<Named>,
    packages: OnceCell<Named>,
    together: OnceCell<Option<Together>>,
}

/// The hosts that a call leads to, up to the first that cannot be read.
#[derive(Debug, Default)]
pub struct Hosts {
    /// In their normal form, in the order in which they stand.
    pub names: Vec<String>,
    /// What is wrong with the one after them.
    pub trouble: Option<NoHost>,
}

impl<'e, 'a> Context<'e, 'a> {
    /// The context of an event of which nothing is known yet.
    #[must_use]
    pub fn new(event: &'e Event<'a>, wrapped: bool) -> Self {
        Self {
            event,
            wrapped,
            intents: OnceCell::new(),
            hosts: OnceCell::new(),
            files: OnceCell::new(),
            public: OnceCell::new(),
            servers: OnceCell::new(),
            packages: OnceCell::new(),
            together: OnceCell::new(),
        }
    }

    /// What the call would do.
    pub fn intents(&self) -> &[Intent] {
        self.intents.get_or_init(|| intents(self.event))
    }

    /// The hosts that it leads to, by what its arguments are called and hold, and by what its command does.
    pub fn hosts(&self) -> &Hosts {
        self.hosts.get_or_init(|| self.found_hosts())
    }

    /// Its texts as one, where there are many.
    pub fn together(&self) -> Option<&Together> {
        let together = || Together::of(&self.event.args);
        self.together.get_or_init(together).as_ref()
    }

    /// The indicators of a kind that it names.
    pub fn named(&self, kind: Kind) -> &Named {
        let named = match kind {
            Kind::File => &self.files,
            Kind::Host => &self.public,
            Kind::Mcp => &self.servers,
            Kind::Package => &self.packages,
        };
        named.get_or_init(|| kind.named_in(self.event))
    }

    /// The paths that the call touches of which a rule may ask where they lead.
    #[must_use]
    pub fn leading(&self) -> Vec<String> {
        leading(self.intents())
    }

    fn found_hosts(&self) -> Hosts {
        let mut hosts = Hosts::default();
        let read = hosts_of_call(self.event, &mut |host| {
            hosts.names.push(host.to_owned());
            true
        });
        if let Err(trouble) = read {
            hosts.trouble = Some(trouble);
            return hosts;
        }
        let reached = self
            .intents()
            .iter()
            .filter(|intent| intent.name.starts_with("net."));
        for target in reached.map(|intent| intent.target.rsplit('@').next().unwrap_or("")) {
            if target.is_empty() || target.contains(ONLY_THE_SHELL_KNOWS) {
                continue;
            }
            match normal_host(target) {
                Ok(host) => hosts.names.push(host),
                Err(NoHost::Bad(_)) => {} // a target that is no host: a device, a file
                Err(NoHost::Unable) => {
                    hosts.trouble = Some(NoHost::Unable);
                    break;
                }
            }
        }
        hosts
    }
}
