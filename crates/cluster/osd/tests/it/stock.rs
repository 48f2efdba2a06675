//! Our OSD in a stock one's place: a recorded monitor's side of a conversation is played to it.

use std::path::PathBuf;

use encoding::Decode;
use maps::OsdMap;
use messages::{Message, MessageHeader, OsdBoot, RawMessage};
use options::Values;
use osd::{
    MonClientConfig, MonClientEvent, MonClientIo, Osd, OsdAddrs, OsdConfig, OsdEffect, OsdEvent, OsdPhase,
};
use store::{MemStore, NoPeek, ObjectStore, StoreShard};
use types::{EntityAddr, Epoch, OsdId, Profile, UTime};

const ME: OsdId = OsdId(2);

/// A release's recorded sessions between osd.2 and the monitor: its first start, and the one after it was killed.
struct Recorded {
    release: &'static str,
    first: &'static str,
    restarted: &'static str,
}

const RECORDED: [Recorded; 3] = [
    Recorded { release: "16.2", first: "21-mon", restarted: "38-mon" },
    Recorded { release: "18.2", first: "19-mon", restarted: "34-mon" },
    Recorded { release: "20.2", first: "19-mon", restarted: "35-mon" },
];

impl Recorded {
    /// The monitor's messages of a session, and the OSD's.
    fn session(&self, name: &str) -> (Vec<Message>, Vec<Message>) {
        let of = |direction| messages(self.release, &format!("{name}.{direction}"));
        (of("s2c"), of("c2s"))
    }
}

/// The messages of one direction of a recorded connection.
fn messages(release: &str, name: &str) -> Vec<Message> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join(format!("../../../tests/captures/{release}/{release}-daemons"))
        .join(name);
    let bytes = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let u16_at = |at: usize| u16::from_le_bytes(bytes[at..at + 2].try_into().unwrap());
    let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let mut at = 10 + usize::from(u16_at(8));
    let mut messages = Vec::new();
    while at + 32 <= bytes.len() {
        let (tag, count) = (bytes[at], usize::from(bytes[at + 1]));
        let lens: Vec<usize> = (0..count).map(|i| u32_at(at + 2 + 6 * i) as usize).collect();
        at += 32;
        let mut segments = Vec::new();
        for (i, len) in lens.iter().enumerate() {
            segments.push(bytes[at..at + len].to_vec());
            // The first segment's checksum follows it; those of the others stand together at the end.
            at += len + if i == 0 && *len > 0 { 4 } else { 0 };
        }
        at += if count > 1 { 13 } else { 0 };
        if tag == 17 {
            let header = MessageHeader::from_bytes(&segments[0]).unwrap();
            let front = segments.get(1).cloned().unwrap_or_default();
            messages.push(Message::decode(&RawMessage::new(header, front.into())).unwrap());
        }
    }
    messages
}

/// The newest map that the monitor's messages lead to without a hole (a stock OSD gets some from its peers).
fn newest_map(messages: &[Message]) -> OsdMap {
    let mut map = OsdMap::default();
    for message in messages {
        let Message::OsdMap(m) = message else { continue };
        for epoch in m.first().unwrap().0..=m.last().unwrap().0 {
            match (m.maps.get(&Epoch(epoch)), m.incremental_maps.get(&Epoch(epoch))) {
                (Some(full), _) => map = OsdMap::from_bytes(full).unwrap(),
                (_, Some(inc)) if map.epoch.0 + 1 == epoch => {
                    map.apply(&maps::Incremental::from_bytes(inc).unwrap()).unwrap();
                }
                _ => {}
            }
        }
    }
    map
}

struct Played {
    osd: Osd,
    sent: Vec<Message>,
    log: Vec<String>,
}

/// Plays a monitor's messages to a new OSD that has the recorded one's place.
fn play(theirs: &[Message], boot: &OsdBoot) -> Played {
    let map = newest_map(theirs);
    let me = map.osd(ME).unwrap();
    let config = OsdConfig {
        whoami: ME,
        cluster_fsid: boot.superblock.cluster_fsid,
        osd_fsid: boot.superblock.osd_fsid,
        addrs: OsdAddrs {
            client: me.client_addrs.clone(),
            cluster: me.cluster_addrs.clone(),
            hb_back: me.hb_back_addrs.clone(),
            hb_front: me.hb_front_addrs.clone(),
        },
        metadata: Default::default(),
        profile: Profile::PACIFIC,
        monitors: MonClientConfig::new(
            vec![EntityAddr::v2(([127, 0, 0, 1], 3300).into(), 0).into()],
            Some(boot.superblock.cluster_fsid),
        ),
        options: Values::new(),
    };
    let (mut store, now) = (MemStore::new(1 << 30), UTime { sec: 1_800_000_000, nsec: 0 });
    let mut played = Played { osd: Osd::new(config), sent: Vec::new(), log: Vec::new() };
    let mut attempt = None;
    let mut events = vec![OsdEvent::Start];
    let mut theirs = theirs.iter().cloned();
    loop {
        let Some(event) = events.pop() else {
            // Nothing under way: the monitor says the next thing.
            match (theirs.next(), attempt) {
                (Some(message), Some(of)) => events.push(OsdEvent::Mon(MonClientEvent::Message(of, message))),
                _ => return played,
            }
            continue;
        };
        let mut effects = Vec::new();
        played.osd.handle(now, event, &mut NoPeek, &mut effects);
        for effect in effects {
            match effect {
                OsdEffect::Queue { token, txn, .. } => store.queue(txn, token),
                OsdEffect::Read { token, request, .. } => store.read(request, token),
                OsdEffect::Mon(MonClientIo::Connect(of, _)) => {
                    attempt = Some(of);
                    events.push(OsdEvent::Mon(MonClientEvent::Connected(of)));
                }
                OsdEffect::Mon(MonClientIo::Send(_, message)) => played.sent.push(message),
                OsdEffect::Log(level, text) => played.log.push(format!("{level:?} {text}")),
                OsdEffect::Failed(reason) => panic!("{reason}"),
                _ => {}
            }
        }
        let mut done = Vec::new();
        store.turn(now);
        store.completions(&mut done);
        events.extend(done.into_iter().rev().map(|done| OsdEvent::Store(StoreShard(0), done)));
    }
}

fn stock_boot(ours: &[Message]) -> OsdBoot {
    let boot = ours.iter().find_map(|m| match m {
        Message::OsdBoot(b) => Some((**b).clone()),
        _ => None,
    });
    boot.unwrap()
}

/// What the boot message says, without what a release or a start differs in.
fn comparable(b: &OsdBoot, with_features: bool) -> impl PartialEq + std::fmt::Debug {
    let mut superblock = b.superblock.clone();
    superblock.last_purged_snaps_scrub = UTime::default();
    // Tentacle writes the range of maps as intervals, in place of its ends.
    if let Some([(oldest, count)]) = superblock.maps.take().as_deref() {
        (superblock.oldest_map, superblock.newest_map) = (*oldest, Epoch(oldest.0 + *count - 1));
    }
    let features = with_features.then_some(b.osd_features);
    (superblock, b.paxos, b.boot_epoch, features, b.cluster_addrs.clone(), b.hb_back_addrs.clone())
}

#[test]
fn a_stock_monitor_gets_us_up_and_we_say_of_our_store_what_a_stock_osd_says() {
    for recorded in &RECORDED {
        let release = recorded.release;
        let (theirs, stock) = recorded.session(recorded.first);
        let boot = stock_boot(&stock);
        let played = play(&theirs, &boot);
        assert_eq!(played.osd.state(), OsdPhase::Active, "{release}: {:#?}", played.log);
        let ours = stock_boot(&played.sent);
        // We advertise Pacific's features.
        let same = |b| comparable(b, release == "16.2");
        assert_eq!(same(&ours), same(&boot), "{release}");
        let addrs = |b: &OsdBoot| {
            ["front_addr", "back_addr", "hb_front_addr", "hb_back_addr"].map(|k| b.metadata[k].clone())
        };
        assert_eq!(addrs(&ours), addrs(&boot), "{release}");
        assert_eq!(played.osd.epoch(), newest_map(&theirs).epoch, "{release}");
        let errors = played.log.iter().filter(|l| l.starts_with("Error")).count();
        assert_eq!(errors, 0, "{release}: {:#?}", played.log);
    }
}

#[test]
fn our_first_messages_are_those_of_a_stock_osd() {
    for recorded in &RECORDED {
        let (theirs, stock) = recorded.session(recorded.first);
        let played = play(&theirs, &stock_boot(&stock));
        // It hands its CRUSH place in by two commands first; ours has one made for it.
        let of = |all: &[Message]| {
            let wanted = |m: &&Message| !matches!(m, Message::MonCommand(_));
            let all: Vec<Message> = all.iter().filter(wanted).take(4).cloned().collect();
            all.into_iter()
                .map(|m| match m {
                    Message::MonSubscribe(s) => format!("{:?}", s.what),
                    m => format!("{m:?}"),
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(of(&played.sent), of(&stock), "{}", recorded.release);
    }
}

#[test]
fn a_restarted_osd_gets_up_too() {
    for recorded in &RECORDED {
        let (theirs, stock) = recorded.session(recorded.restarted);
        let played = play(&theirs, &stock_boot(&stock));
        assert_eq!(played.osd.state(), OsdPhase::Active, "{}: {:#?}", recorded.release, played.log);
        assert_ne!(played.osd.epoch(), Epoch(0), "{}", recorded.release);
    }
}

#[test]
fn no_increment_of_a_stock_monitor_fails_its_checksum() {
    for recorded in &RECORDED {
        for session in [recorded.first, recorded.restarted] {
            let (theirs, stock) = recorded.session(session);
            let played = play(&theirs, &stock_boot(&stock));
            let asked = played.sent.iter().filter(|m| matches!(m, Message::MonGetOsdMap(_))).count();
            assert_eq!(asked, 0, "{} {session}: {:#?}", recorded.release, played.log);
        }
    }
}
