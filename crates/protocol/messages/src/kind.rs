//! Message type numbers (Ceph's CEPH_MSG_* and MSG_*) and Ceph's names for them, and those of the messages that are
//! Loligo's own.

macro_rules! kinds {
    (ceph [$($name:ident = $n:literal $ceph:literal),* $(,)?] own [$($own:ident = $m:literal $text:literal),* $(,)?]) => {
        $(
            #[doc = concat!("Ceph's ", $ceph, ".")]
            pub const $name: u16 = $n;
        )*
        $(
            #[doc = concat!("Our ", $text, ".")]
            pub const $own: u16 = $m;
        )*

        /// The name of a message type, Ceph's if it is Ceph's: of types that we handle, and of those that we only log.
        pub fn name(kind: u16) -> Option<&'static str> {
            match kind {
                $($n => Some($ceph),)*
                $($m => Some($text),)*
                _ => None,
            }
        }
    };
}
kinds! {
    ceph [
    PING = 2 "MPing", MON_MAP = 4 "MMonMap", MON_GET_MAP = 5 "MMonGetMap", MON_GET_OSD_MAP = 6 "MMonGetOSDMap",
    STATFS = 13 "MStatfs", STATFS_REPLY = 14 "MStatfsReply", MON_SUBSCRIBE = 15 "MMonSubscribe",
    MON_SUBSCRIBE_ACK = 16 "MMonSubscribeAck", AUTH = 17 "MAuth", AUTH_REPLY = 18 "MAuthReply",
    MON_GET_VERSION = 19 "MMonGetVersion", MON_GET_VERSION_REPLY = 20 "MMonGetVersionReply",
    MDS_MAP = 21 "MMDSMap", CLIENT_SESSION = 22 "MClientSession", CLIENT_RECONNECT = 23 "MClientReconnect",
    CLIENT_REQUEST = 24 "MClientRequest", CLIENT_REPLY = 26 "MClientReply", CLIENT_METRICS = 29 "MClientMetrics",
    PAXOS = 40 "PaxosServiceMessage", OSD_MAP = 41 "MOSDMap", OSD_OP = 42 "MOSDOp", OSD_OP_REPLY = 43 "MOSDOpReply",
    WATCH_NOTIFY = 44 "MWatchNotify", FS_MAP = 45 "MFSMap", FORWARD = 46 "MForward", ROUTE = 47 "MRoute",
    POOL_OP_REPLY = 48 "MPoolOpReply", POOL_OP = 49 "MPoolOp", MON_COMMAND = 50 "MMonCommand",
    MON_COMMAND_ACK = 51 "MMonCommandAck", LOG = 52 "MLog", LOG_ACK = 53 "MLogAck", KV_DATA = 54 "MKVData",
    GET_POOL_STATS = 58 "MGetPoolStats", GET_POOL_STATS_REPLY = 59 "MGetPoolStatsReply",
    MON_GLOBAL_ID = 60 "MMonGlobalID", OSD_BACKOFF = 61 "MOSDBackoff", CONFIG = 62 "MConfig",
    GET_CONFIG = 63 "MGetConfig", MON_SCRUB = 64 "MMonScrub", MON_ELECTION = 65 "MMonElection",
    MON_PAXOS = 66 "MMonPaxos", MON_PROBE = 67 "MMonProbe", MON_JOIN = 68 "MMonJoin", MON_SYNC = 69 "MMonSync",
    OSD_PING = 70 "MOSDPing", OSD_BOOT = 71 "MOSDBoot", OSD_FAILURE = 72 "MOSDFailure", OSD_ALIVE = 73 "MOSDAlive",
    OSD_MARK_ME_DOWN = 74 "MOSDMarkMeDown", OSD_FULL = 75 "MOSDFull",
    MON_GET_PURGED_SNAPS = 76 "MMonGetPurgedSnaps", MON_GET_PURGED_SNAPS_REPLY = 77 "MMonGetPurgedSnapsReply",
    OSD_PG_TEMP = 78 "MOSDPGTemp", OSD_BEACON = 79 "MOSDBeacon", OSD_PG_NOTIFY = 80 "MOSDPGNotify",
    OSD_PG_QUERY = 81 "MOSDPGQuery", OSD_PG_LOG = 83 "MOSDPGLog", OSD_PG_REMOVE = 84 "MOSDPGRemove",
    OSD_PG_INFO = 85 "MOSDPGInfo", OSD_PG_TRIM = 86 "MOSDPGTrim", PG_STATS = 87 "MPGStats",
    PG_STATS_ACK = 88 "MPGStatsAck", OSD_PG_CREATE = 89 "MOSDPGCreate", REMOVE_SNAPS = 90 "MRemoveSnaps",
    OSD_SCRUB_RESERVE = 92 "MOSDScrubReserve", OSD_REP_SCRUB = 93 "MOSDRepScrub", OSD_PG_SCAN = 94 "MOSDPGScan",
    OSD_PG_BACKFILL = 95 "MOSDPGBackfill", OSD_PG_BACKFILL_REMOVE = 96 "MOSDPGBackfillRemove",
    COMMAND = 97 "MCommand", COMMAND_REPLY = 98 "MCommandReply", OSD_BACKFILL_RESERVE = 99 "MBackfillReserve",
    MDS_BEACON = 100 "MMDSBeacon", FS_MAP_USER = 103 "MFSMapUser", OSD_PG_PUSH = 105 "MOSDPGPush",
    OSD_PG_PULL = 106 "MOSDPGPull", OSD_PG_PUSH_REPLY = 107 "MOSDPGPushReply",
    OSD_EC_WRITE = 108 "MOSDECSubOpWrite", OSD_EC_WRITE_REPLY = 109 "MOSDECSubOpWriteReply",
    OSD_EC_READ = 110 "MOSDECSubOpRead", OSD_EC_READ_REPLY = 111 "MOSDECSubOpReadReply",
    OSD_REP_OP = 112 "MOSDRepOp", OSD_REP_OP_REPLY = 113 "MOSDRepOpReply",
    OSD_PG_UPDATE_LOG_MISSING = 114 "MOSDPGUpdateLogMissing",
    OSD_PG_UPDATE_LOG_MISSING_REPLY = 115 "MOSDPGUpdateLogMissingReply", OSD_PG_CREATED = 116 "MOSDPGCreated",
    OSD_REP_SCRUB_MAP = 117 "MOSDRepScrubMap", OSD_PG_RECOVERY_DELETE = 118 "MOSDPGRecoveryDelete",
    OSD_PG_RECOVERY_DELETE_REPLY = 119 "MOSDPGRecoveryDeleteReply", OSD_PG_CREATE2 = 120 "MOSDPGCreate2",
    OSD_SCRUB2 = 121 "MOSDScrub2", OSD_PG_READY_TO_MERGE = 122 "MOSDPGReadyToMerge",
    OSD_MARK_ME_DEAD = 123 "MOSDMarkMeDead", OSD_PG_NOTIFY2 = 130 "MOSDPGNotify2",
    OSD_PG_QUERY2 = 131 "MOSDPGQuery2", OSD_PG_INFO2 = 132 "MOSDPGInfo2", OSD_PG_LEASE = 133 "MOSDPGLease",
    OSD_PG_LEASE_ACK = 134 "MOSDPGLeaseAck", OSD_PG_PCT = 136 "MOSDPGPCT", MON_PING = 140 "MMonPing",
    MON_USED_PENDING_KEYS = 141 "MMonUsedPendingKeys", OSD_RECOVERY_RESERVE = 150 "MRecoveryReserve",
    OSD_FORCE_RECOVERY = 151 "MOSDForceRecovery", TIME_CHECK2 = 0x609 "MTimeCheck2",
    MON_HEALTH_CHECKS = 0x608 "MMonHealthChecks", MGR_OPEN = 0x700 "MMgrOpen", MGR_CONFIGURE = 0x701 "MMgrConfigure",
    MGR_REPORT = 0x702 "MMgrReport", MGR_BEACON = 0x703 "MMgrBeacon", MGR_MAP = 0x704 "MMgrMap",
    MGR_DIGEST = 0x705 "MMgrDigest", MON_MGR_REPORT = 0x706 "MMonMgrReport", SERVICE_MAP = 0x707 "MServiceMap",
    MGR_CLOSE = 0x708 "MMgrClose", MGR_COMMAND = 0x709 "MMgrCommand", MGR_COMMAND_REPLY = 0x70a "MMgrCommandReply",
    MGR_UPDATE = 0x70b "MMgrUpdate",
    ]
    own [PG_INFO_QUERY = 0x4c00 "PgInfoQuery", PG_INFO_REPLY = 0x4c01 "PgInfoReply"]
}

/// Whether a message is Loligo's own: what its OSDs have for each other. Ceph's numbers end far below, and no program of
/// its gets such a message.
pub fn is_ours(kind: u16) -> bool {
    matches!(kind, 0x4c00..=0x4cff)
}
