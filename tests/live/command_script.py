"""The script of commands that test_commands.py runs against real Ceph and against a cluster of ours.

A line is a command of `ceph`. Its first character says what is compared besides the exit code:
  $  nothing: the command changes something
  {  the keys of its JSON (`-f json`): each of Ceph's is in ours
  =  the same, of a command that changes something
  |  the heading of its plain output
  *  both
There are two pools, `one` and `two`, of eight PGs, and three OSDs. Names in a line: {poolid} is the number of the pool
`one`, {uuid} the UUID of osd.0.

What ends a daemon of real Ceph is left out: an OSD of 16.2 crashes (init_hb_stamps) when `osd primary-temp` names it for a
PG that it still has and no longer serves.
"""

SCRIPT = """
$ osd pool application enable one rbd
$ osd pool application enable two rados
* status
* health
{ health detail
* df
* df detail
{ log last 5
{ log last 5 info cluster
{ versions
{ version
{ fsid
{ features
{ report
{ quorum_status
{ time-sync-status
{ node ls
{ node ls osd
{ config dump
$ config set osd osd_max_backfills 3
{ config dump
{ config get osd.0
{ config get osd.0 osd_max_backfills
{ config ls
{ config help osd_max_backfills
{ config show osd.0
{ config show osd.0 osd_max_backfills
{ config show-with-defaults osd.0
{ config log
$ config rm osd osd_max_backfills
$ config generate-minimal-conf
$ config assimilate-conf -i /dev/null
$ config-key set a/b c
{ config-key get a/b
{ config-key ls
{ config-key dump
$ config-key exists a/b
$ config-key exists a/c
$ config-key rm a/b
$ config-key get a/b
{ mon dump
{ mon stat
{ mon metadata
{ mon metadata a
{ mon versions
{ mon count-metadata ceph_version
{ mon feature ls
$ mon ok-to-stop a
$ mon ok-to-rm a
$ mon ok-to-add-offline
{ mgr stat
{ mgr dump
{ mgr metadata
{ mgr versions
{ mgr services
{ mgr module ls
{ mgr count-metadata ceph_version
{ fs ls
{ fs dump
{ mds stat
{ mds metadata
{ mds versions
{ service dump
{ service status
{ auth ls
{ auth get client.admin
{ auth get-key client.admin
{ auth print-key client.admin
$ auth get client.none
= auth get-or-create client.x mon 'allow r'
{ auth get client.x
= auth get-or-create-key client.x
$ auth caps client.x mon 'allow *'
$ auth export client.x
$ auth rm client.x
$ auth get-or-create client.y mon 'allow r' osd 'allow zz'
$ auth add client.y osd 'allow rwx pool=a namespace=b' mds 'allow'
$ auth caps client.y osd nonsense
$ auth caps client.y mgr 'profile rbd pool=a'
$ auth rm client.y
{ osd stat
{ osd dump
{ osd info
{ osd info osd.0
* osd tree
{ osd tree up
* osd ls
{ osd ls-tree default
{ osd tree-from default
{ osd getmaxosd
{ osd map one object
{ osd map one object space
{ osd find 0
{ osd metadata
{ osd metadata 0
{ osd versions
{ osd count-metadata ceph_version
{ osd numa-status
{ osd blocklist ls
{ osd get-require-min-compat-client
{ osd utilization
* osd df
* osd df tree
{ osd df plain osd.0
* osd perf
{ osd pool stats
{ osd pool stats one
* osd status
{ osd blocked-by
{ osd last-stat-seq osd.0
{ osd ok-to-stop 0
$ osd safe-to-destroy 0
{ osd erasure-code-profile ls
{ osd erasure-code-profile get default
$ osd erasure-code-profile set mine k=2 m=1
{ osd erasure-code-profile get mine
$ osd erasure-code-profile rm mine
$ osd erasure-code-profile get none
* osd pool ls
{ osd pool ls detail
{ osd lspools
{ osd pool get one all
{ osd pool get one size
{ osd pool get one pg_num
{ osd pool get one crush_rule
{ osd pool get-quota one
{ osd pool application get
{ osd pool application get one
$ osd pool application set one rbd k v
$ osd pool application get one rbd k
$ osd pool application rm one rbd k
$ osd pool application disable two rados
$ osd pool application disable two rados --yes-i-really-mean-it
$ osd pool set one min_size 1
$ osd pool set one nodelete true
$ osd pool set one nodelete false
$ osd pool set one hit_set_count 5
$ osd pool set one what 5
$ osd pool set none size 2
$ osd pool set-quota one max_objects 100
$ osd pool set-quota one max_bytes 1Gi
{ osd pool get-quota one
$ osd pool set-quota one max_objects 0
$ osd pool set-quota one max_bytes 0
$ osd pool mksnap one s
$ osd pool rmsnap one s
$ osd pool rename two three
$ osd pool rename three two
$ osd pool set-quota none max_objects 4
$ osd pool get none size
{ osd pool autoscale-status
$ osd pool scrub one
$ osd pool deep-scrub one
$ osd pool repair one
$ osd pool force-recovery one
$ osd pool cancel-force-recovery one
$ osd pool force-backfill one
$ osd pool cancel-force-backfill one
$ osd set noout
$ osd unset noout
$ osd set nonsense
$ osd pause
$ osd unpause
$ osd set-group noout osd.0
$ osd unset-group noout osd.0
$ osd add-noout osd.0
$ osd rm-noout osd.0
$ osd set-full-ratio 0.96
$ osd set-backfillfull-ratio 0.91
$ osd set-nearfull-ratio 0.86
$ osd primary-affinity 0 1
$ osd setmaxosd 3
$ osd setmaxosd 1
$ osd blocklist add 10.0.0.1:0/1 10
{ osd blocklist ls
$ osd blocklist rm 10.0.0.1:0/1
$ osd blocklist clear
$ osd require-osd-release pacific
$ osd set-require-min-compat-client luminous
$ osd scrub 0
$ osd deep-scrub 0
$ osd repair 0
* pg stat
{ pg dump
* pg dump pgs_brief
{ pg dump summary
{ pg dump sum
{ pg dump osds
{ pg dump pools
{ pg dump pgs
{ pg dump all
{ pg dump_json
{ pg dump_pools_json
* pg ls
{ pg ls-by-pool one
{ pg ls-by-osd 0
{ pg ls-by-primary 0
{ pg dump_stuck
{ pg dump_stuck stale
$ pg debug unfound_objects_exist
{ pg map {poolid}.0
{ pg {poolid}.0 query
{ tell {poolid}.0 query
{ tell {poolid}.0 scrub-abort
{ pg {poolid}.0 list_unfound
$ pg {poolid}.0 mark_unfound_lost revert
$ pg scrub {poolid}.0
$ pg deep-scrub {poolid}.0
$ pg repair {poolid}.0
$ pg force-recovery {poolid}.0
$ pg cancel-force-recovery {poolid}.0
$ pg force-backfill {poolid}.0
$ pg cancel-force-backfill {poolid}.0
$ pg repeer {poolid}.0
$ pg scrub 99.0
$ pg map 99.0
{ balancer status
= balancer mode none
$ balancer off
{ crash ls
{ crash stat
{ device ls
$ device ls-by-daemon osd.0
{ progress
{ progress json
{ fs status
$ iostat -h
$ telemetry status
$ orch status
$ tell osd.0 version
{ tell osd.0 version
{ tell osd.0 status
{ tell osd.0 config get osd_max_backfills
= tell osd.0 config set osd_max_backfills 3
{ tell osd.0 config diff
{ tell osd.0 config diff get osd_max_backfills
= tell osd.0 config unset osd_max_backfills
$ tell osd.0 injectargs --osd_max_backfills=2
{ tell osd.0 perf dump
{ tell osd.0 perf dump osd
{ tell osd.0 perf dump osd op
{ tell osd.0 perf schema
{ tell osd.0 perf histogram dump
{ tell osd.0 perf histogram schema
= tell osd.0 perf reset all
{ tell osd.0 dump_ops_in_flight
{ tell osd.0 ops
{ tell osd.0 dump_blocked_ops
{ tell osd.0 dump_historic_ops
{ tell osd.0 dump_historic_ops_by_duration
{ tell osd.0 dump_historic_slow_ops
{ tell osd.0 dump_mempools
{ tell osd.0 dump_osd_network
{ tell osd.0 dump_watchers
{ tell osd.0 dump_blocklist
{ tell osd.0 dump_scrubs
{ tell osd.0 dump_scrub_reservations
{ tell osd.0 dump_recovery_reservations
{ tell osd.0 dump_pgstate_history
{ tell osd.0 dump_pg_recovery_stats
{ tell osd.0 dump_objectstore_kv_stats
{ tell osd.0 dump_op_pq_state
{ tell osd.0 objecter_requests
{ tell osd.0 get_latest_osdmap
{ tell osd.0 get_mapped_pools
{ tell osd.0 list_devices
{ tell osd.0 list_unfound
{ tell osd.0 getomap one object
{ tell osd.0 cluster_log x
{ tell osd.0 heap stats
{ tell osd.0 cache status
= tell osd.0 cache drop
{ tell osd.0 compact
{ tell osd.0 flush_journal
{ tell osd.0 flush_pg_stats
{ tell osd.0 log dump
{ tell osd.0 log flush
{ tell osd.0 log reopen
{ tell osd.0 get_heap_property x
= tell osd.0 set_recovery_delay 0
= tell osd.0 debug kick_recovery_wq 1
= tell osd.0 reset_pg_recovery_stats
= tell osd.0 reset_purged_snaps_last
{ tell osd.0 scrub_purged_snaps
{ tell osd.0 smart
= tell osd.0 bench 4194304 65536
{ tell osd.0 send_beacon
{ tell mon.a version
{ tell mon.a mon_status
{ tell mon.a config get mon_max_pg_per_osd
{ tell mon.a config show
{ tell mon.a config diff
= tell mon.a config set mon_max_pg_per_osd 900
$ tell mon.a injectargs --mon_max_pg_per_osd=800
{ tell mon.a perf dump
{ tell mon.a perf schema
{ tell mon.a sessions
{ tell mon.a ops
{ tell mon.a dump_historic_ops
{ tell mon.a quorum_status
{ tell mon.a sync_status
{ tell mon.a heap stats
{ tell mon.a connection scores dump
{ tell mon.a log dump
{ tell mon.a log flush
{ tell mon.a log reopen
{ tell mon.a dump_mempools
{ tell mon.a ops
{ tell mon.a smart
* osd crush tree
* osd crush tree --show-shadow
{ osd crush dump
{ osd crush show-tunables
{ osd crush rule ls
{ osd crush rule list
{ osd crush rule dump
{ osd crush rule dump replicated_rule
$ osd crush rule create-replicated fast default osd
$ osd crush rule create-simple simple default osd
$ osd crush rule create-simple simple default osd firstn
$ osd crush rule rename fast faster
$ osd crush rule ls-by-class ssd
$ osd crush rule rm faster
$ osd crush rule rm simple
$ osd crush rule rm none
{ osd crush class ls
$ osd crush class create slow
$ osd crush class rename slow slower
$ osd crush class rm slower
$ osd crush rm-device-class 0
$ osd crush set-device-class fast 0
{ osd crush class ls-osd fast
{ osd crush get-device-class 0
$ osd crush get-tunable straw_calc_version
$ osd crush set-tunable straw_calc_version 1
$ osd crush tunables jewel
$ osd crush tunables nonsense
$ osd crush add-bucket rack1 rack
$ osd crush add-bucket host1 host
$ osd crush move rack1 root=default
$ osd crush move host1 rack=rack1
{ osd crush ls default
{ osd crush ls rack1
$ osd crush link host1 root=default
$ osd crush unlink host1 default
$ osd crush rename-bucket host1 host2
$ osd crush rename-bucket none host3
$ osd crush rm host2
$ osd crush remove rack1
$ osd crush rm none
$ osd crush add-bucket host9 host root=default
$ osd crush set osd.2 1.0 root=default host=host9
$ osd crush create-or-move osd.2 1.0 root=default host=host9
$ osd crush add osd.2 0.5 root=default host=host9
$ osd crush reweight osd.2 1.5
$ osd crush reweight-all
$ osd crush reweight-subtree host9 1.0
$ osd crush swap-bucket host9 host9
$ osd crush weight-set ls
$ osd crush weight-set dump
$ osd crush weight-set create-compat
$ osd crush weight-set reweight-compat osd.0 1.0
$ osd crush weight-set rm-compat
$ osd reweight 0 1.0
$ osd reweight 99 1.0
$ osd reweightn {}
$ osd test-reweight-by-utilization
$ osd test-reweight-by-pg
$ osd reweight-by-utilization
$ osd reweight-by-pg
$ osd setmaxosd 10
$ osd pg-upmap-items {poolid}.0 0 1
$ osd rm-pg-upmap-items {poolid}.0
$ osd pg-upmap {poolid}.0 0
$ osd rm-pg-upmap {poolid}.0
$ osd pg-temp {poolid}.0 0
$ osd pg-temp {poolid}.0
$ osd primary-temp 99.0 0
$ osd primary-temp {poolid}.0 -1
$ log hello
$ osd down 2
$ osd in 2
$ osd out 2
$ osd in 2
$ osd destroy 99 --force
$ osd purge 99 --force
$ osd purge 0 --force
$ osd rm 0
$ osd rm 99
$ osd lost 99 --yes-i-really-mean-it
$ osd new {uuid}
$ osd create
$ osd stop 0
$ osd pool rm one
$ osd pool rm one one
$ osd pool delete two two --yes-i-really-really-mean-it
$ osd pool rm one one --yes-i-really-really-mean-it
$ nonsense
$ osd nonsense
""".strip().splitlines()
