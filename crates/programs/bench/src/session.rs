//! A client with what a bench asks of it around the measurement: a map, a pool, single requests and streams of them.

use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::Arc;

use client::{Client, ClientConfig, ClientEvent, Credentials};
use messages::osd_op::OsdFlags;
use messages::{Op, OpArgs, OpCode};
use monclient::MonClientConfig;
use objecter::{ObjecterConfig, Outcome, Request, RequestId};
use runtime::Clock;
use types::{EntityAddrVec, EntityId, PoolId, Profile, UTime};

use crate::error::{BenchError, errno_text};
use crate::run::Stage;

/// How often a client that waits looks whether it is to stop.
pub(crate) const LOOK: Duration = Duration::from_millis(100);

/// Where the cluster is, and as whom it is used.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    pub monitors: Vec<EntityAddrVec>,
    pub entity: EntityId,
    pub credentials: Credentials,
    /// Of each request and each command; zero waits for ever.
    pub timeout: Duration,
}

pub(crate) struct Session {
    pub client: Client,
    pub stage: Arc<Stage>,
    /// What the client warned of last.
    pub warning: Option<String>,
}

impl Session {
    /// Connects, and waits for the cluster's newest map.
    pub(crate) fn open(
        access: &Access,
        requests_max: usize,
        clock: Clock,
        stage: Arc<Stage>,
        first_monitor: usize,
    ) -> Result<Self, BenchError> {
        let monitors = MonClientConfig {
            ping_interval: Duration::from_secs(10),
            first: first_monitor,
            ..MonClientConfig::new(access.monitors.clone(), None)
        };
        let objecter = ObjecterConfig {
            requests_max,
            request_bytes_max: u64::MAX,
            request_timeout: access.timeout,
            command_timeout: access.timeout,
            ..ObjecterConfig::new(monitors, Profile::PACIFIC)
        };
        let config = ClientConfig {
            entity: access.entity.clone(),
            credentials: access.credentials.clone(),
            ..ClientConfig::new(objecter)
        };
        let mut session = Self { client: Client::start(config, clock)?, stage, warning: None };
        let wait = session.client.wait_for_latest_map();
        let give_up = (!access.timeout.is_zero()).then(|| session.client.now().after(access.timeout));
        let mut events = Vec::new();
        loop {
            if give_up.is_some_and(|at| at <= session.client.now()) {
                let why = session.warning.map_or(String::new(), |warning| format!(": {warning}"));
                return Err(BenchError::NoMonitor { seconds: access.timeout.as_secs(), why });
            }
            session.turn(None, &mut events)?;
            for event in events.drain(..) {
                match event {
                    ClientEvent::MapReached(id) if id == wait => return Ok(session),
                    // Asking again would not change it.
                    ClientEvent::Denied(why) => return Err(BenchError::Denied(why)),
                    other => session.note(&other),
                }
            }
        }
    }

    /// A turn of the client, of at most [`LOOK`].
    pub(crate) fn turn(
        &mut self,
        until: Option<UTime>,
        events: &mut Vec<ClientEvent>,
    ) -> Result<(), BenchError> {
        let look = self.client.now().after(LOOK);
        self.client.turn(Some(until.map_or(look, |at| at.min(look))), events)?;
        // Later, what was begun ends in order.
        if self.stage.is_stopped() && !self.stage.has_begun() {
            return Err(BenchError::Interrupted);
        }
        Ok(())
    }

    /// Keeps what an event says that is nobody's answer.
    pub(crate) fn note(&mut self, event: &ClientEvent) {
        if let ClientEvent::Warning(text) = event {
            self.warning = Some(text.clone());
        }
    }

    /// A pool by its name.
    pub(crate) fn pool(&self, name: &str) -> Result<PoolId, BenchError> {
        let map = self.client.objecter().map();
        let names = || {
            let names: Vec<&str> =
                map.iter().flat_map(|map| map.pool_names.values()).map(String::as_str).collect();
            if names.is_empty() {
                "the cluster has none".into()
            } else {
                format!("there are: {}", names.join(", "))
            }
        };
        let found = map.and_then(|map| map.pool_by_name(name));
        found.ok_or_else(|| BenchError::NoPool { name: name.into(), pools: names() })
    }

    /// Runs requests, so many at once, until there are no more. Stops at the first one that `done` refuses.
    pub(crate) fn stream<T>(
        &mut self,
        in_flight: usize,
        mut next: impl FnMut() -> Option<(T, Request)>,
        mut done: impl FnMut(T, &Outcome) -> Result<(), BenchError>,
    ) -> Result<(), BenchError> {
        let mut under_way: BTreeMap<RequestId, T> = BTreeMap::new();
        let mut events = Vec::new();
        let (mut ended, mut failed, mut waiting) = (false, None, None);
        loop {
            while !ended && failed.is_none() && under_way.len() < in_flight {
                let Some((what, request)) = waiting.take().or_else(&mut next) else {
                    ended = true;
                    break;
                };
                match self.client.submit(request) {
                    Ok(id) => drop(under_way.insert(id, what)),
                    // The client takes fewer at once.
                    Err(busy) => {
                        waiting = Some((what, *busy.0));
                        break;
                    }
                }
            }
            if under_way.is_empty() {
                return failed.map_or(Ok(()), Err);
            }
            self.turn(None, &mut events)?;
            for event in events.drain(..) {
                match event {
                    ClientEvent::Done { id, outcome, .. } => {
                        if let Some(what) = under_way.remove(&id) {
                            let result = done(what, &outcome);
                            failed = failed.or(result.err());
                        }
                    }
                    other => self.note(&other),
                }
            }
        }
    }

    /// Runs one request.
    pub(crate) fn call(&mut self, request: Request) -> Result<Outcome, BenchError> {
        let (mut request, mut answer) = (Some(request), None);
        self.stream(
            1,
            || request.take().map(|request| ((), request)),
            |(), outcome| {
                answer = Some(outcome.clone());
                Ok(())
            },
        )?;
        answer.ok_or(BenchError::Interrupted)
    }
}

/// A request that a full pool refuses at once, instead of letting it wait for space.
pub(crate) fn request(pool: PoolId, object: String, ops: Vec<Op>) -> Request {
    Request { flags: OsdFlags::FULL_TRY, ..Request::on(pool, object, ops) }
}

/// Reads a range.
pub(crate) fn read_op(offset: u64, length: u64) -> Op {
    Op::new(OpCode::READ, OpArgs::extent(offset, length))
}

/// The error of a request that failed.
pub(crate) fn failed(what: &str, pool: &str, outcome: &Outcome) -> BenchError {
    BenchError::Request { what: what.into(), pool: pool.into(), why: errno_text(outcome.result()) }
}
