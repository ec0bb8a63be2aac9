use std::fs;

use proptest::prelude::*;
use rstest::rstest;

use crate::config::hbase_site::*;

fn site(properties: &[(&str, &str)]) -> String {
    let body: String = properties
        .iter()
        .map(|(name, value)| format!("<property><name>{name}</name><value>{value}</value></property>"))
        .collect();
    format!("<?xml version=\"1.0\"?><!-- by hand --><configuration>{body}</configuration>")
}

#[test]
fn reads_the_cluster_and_the_times() {
    let config = Config::from_hbase_site(&site(&[
        (
            "hbase.client.registry.impl",
            "org.apache.hadoop.hbase.client.RpcConnectionRegistry",
        ),
        ("hbase.masters", " m1:16000 , m2 "),
        ("hbase.rpc.timeout", "7000"),
        ("hbase.rpc.read.timeout", "3000"),
        ("hbase.client.pause.cqtbe", "500"),
        ("hbase.client.backpressure.enabled", " True "),
        ("a.key.of.someone.else", "a &amp; b &#65;"),
    ]))
    .unwrap();
    assert_eq!(config.address().to_string(), "hbase+rpc://m1:16000,m2:16000");
    assert_eq!(config.read_timeout(), Duration::from_secs(3));
    assert_eq!(config.write_timeout(), Duration::from_secs(7));
    assert_eq!(config.overloaded_pause(), Duration::from_millis(500));
    assert!(config.backpressure());
    assert_eq!(config.operation_timeout(), Duration::from_secs(60));
}

#[rstest]
#[case(&[], MetaReplicaMode::None)]
#[case(&[("hbase.meta.replicas.use", "true")], MetaReplicaMode::HedgedRead)]
#[case(&[("hbase.meta.replicas.use", "true"), ("hbase.locator.meta.replicas.mode", "None")], MetaReplicaMode::HedgedRead)]
#[case(&[("hbase.meta.replicas.use", "true"), ("hbase.locator.meta.replicas.mode", "loadbalance")], MetaReplicaMode::LoadBalance)]
#[case(&[("hbase.locator.meta.replicas.mode", "HedgedRead")], MetaReplicaMode::HedgedRead)]
fn reads_the_replicas_of_meta(#[case] properties: &[(&str, &str)], #[case] mode: MetaReplicaMode) {
    let mut all = vec![
        ("hbase.masters", "m1"),
        ("hbase.client.meta.replica.scan.timeout", "2500"),
    ];
    all.extend(properties);
    let config = Config::from_hbase_site(&site(&all)).unwrap();
    assert_eq!(config.meta_replicas(), mode);
    assert_eq!(config.meta_replica_timeout(), Duration::from_micros(2500));
    assert_eq!(config.warnings(), [""; 0]);
}

#[cfg(feature = "zookeeper")]
#[test]
fn finds_the_quorum_by_default_and_prefers_the_clients_own() {
    let address = |properties: &[(&str, &str)]| {
        Config::from_hbase_site(&site(properties))
            .unwrap()
            .address()
            .to_string()
    };
    assert_eq!(address(&[]), "hbase+zk://localhost:2181/hbase");
    assert_eq!(
        address(&[
            ("hbase.zookeeper.quorum", "a,b"),
            ("hbase.client.zookeeper.quorum", "c,d:7"),
            ("hbase.zookeeper.property.clientPort", "5"),
            ("zookeeper.znode.parent", "/hbase-secure"),
        ]),
        "hbase+zk://c:5,d:7/hbase-secure"
    );
}

#[rstest]
#[case("<configuration><property>", "never closed")]
#[case("<configuration>\n</wrong>", "hbase-site.xml:2: ")]
#[case(
    "<configuration><property><name>a</name><value>&who;</value></property></configuration>",
    "&who;"
)]
#[case(&site(&[("hbase.rpc.timeout", "soon")]), "\"soon\"")]
#[case(&site(&[("hbase.locator.meta.replicas.mode", "Some")]), "\"Some\"")]
#[case(&site(&[("hbase.zookeeper.property.clientPort", "99999")]), "\"99999\"")]
#[case(&site(&[("hbase.client.netty.tls.enabled", "yes")]), "can be true or false")]
#[cfg_attr(
    not(feature = "kerberos"),
    case(&site(&[("hbase.security.authentication", "kerberos")]), "the feature kerberos")
)]
#[cfg_attr(
    not(feature = "tls"),
    case(&site(&[("hbase.client.netty.tls.enabled", "true")]), "the feature tls")
)]
#[cfg_attr(
    all(feature = "zookeeper", not(feature = "tls")),
    case(&site(&[("hbase.zookeeper.property.client.secure", "true")]), "the feature tls")
)]
#[case(&site(&[("hbase.rpc.timeout", "${a}"), ("a", "${b}"), ("b", "${a}")]), "hbase.rpc.timeout")]
#[case(&site(&[("hbase.rpc.timeout", "${not.there}")]), "\"${not.there}\"")]
#[case(
    "<configuration><xi:include href='a.xml'/></configuration>",
    "from_hbase_site_file"
)]
fn says_what_it_cannot_read(#[case] xml: &str, #[case] why: &str) {
    let error = Config::from_hbase_site(xml).unwrap_err();
    assert!(error.to_string().contains(why), "{error}");
}

#[test]
fn a_largest_cell_of_zero_or_less_is_no_limit() {
    for (value, limit) in [("0", usize::MAX), ("-1", usize::MAX), ("77", 77)] {
        let config = Config::from_hbase_site(&site(&[
            ("hbase.client.keyvalue.maxsize", value),
            ("hbase.security.authentication", "SIMPLE"),
        ]));
        assert_eq!(config.unwrap().max_cell_size(), limit);
    }
}

#[test]
fn a_time_that_means_for_ever_to_java_is_a_year() {
    let config = Config::from_hbase_site(&site(&[
        ("hbase.client.operation.timeout", "9223372036854775807"),
        ("hbase.rpc.timeout", "0"),
    ]))
    .unwrap();
    const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
    assert_eq!(config.operation_timeout(), YEAR);
    assert_eq!(config.read_timeout(), YEAR);
    assert_eq!(config.write_timeout(), YEAR);
    for none in ["0", "-1"] {
        let config = Config::from_hbase_site(&site(&[
            ("hbase.client.operation.timeout", none),
            ("hbase.rpc.write.timeout", none),
            ("hbase.ipc.client.socket.timeout.connect", none),
            ("zookeeper.registry.async.get.timeout", none),
            ("hbase.client.scanner.max.result.size", none),
        ]));
        let config = config.unwrap();
        assert_eq!(config.operation_timeout(), YEAR);
        assert_eq!(config.read_timeout(), Duration::from_secs(20));
        assert_eq!(config.write_timeout(), YEAR);
        assert_eq!(config.connect_timeout(), YEAR);
        assert_eq!(config.registry_timeout(), YEAR);
        assert_eq!(config.scan_batch_bytes(), u64::MAX);
    }
}

#[test]
fn settings_without_a_counterpart_are_named_with_what_applies_instead() {
    let read = |properties: &[(&str, &str)]| Config::from_hbase_site(&site(properties)).unwrap();
    for (key, instead) in WITHOUT_COUNTERPART {
        let config = read(&[(key, "7")]);
        assert_eq!(config.warnings(), [format!("{key} is \"7\": {instead}")]);
        assert!(read(&[(key, " ")]).warnings().is_empty());
    }
    assert!(read(&[("hbase.regionserver.port", "7")]).warnings().is_empty());
}

#[rstest]
#[case("100", Some(100))]
#[case("2147483648", Some(i32::MAX as u32))]
#[case("0", None)]
#[case("-1", None)]
fn rows_of_a_call_are_limited_as_in_hbase(#[case] value: &str, #[case] expected: Option<u32>) {
    let config = Config::from_hbase_site(&site(&[("hbase.client.scanner.caching", value)]));
    assert_eq!(config.unwrap().scan_caching(), expected);
}

#[test]
fn servers_of_the_rpc_registry_count_where_no_quorum_is_named() {
    let address = |properties: &[(&str, &str)]| {
        let config = Config::from_hbase_site(&site(properties)).unwrap();
        config.address().to_string()
    };
    assert_eq!(
        address(&[("hbase.masters", "m1,m2:7")]),
        "hbase+rpc://m1:16000,m2:7"
    );
    assert_eq!(
        address(&[
            ("hbase.client.bootstrap.servers", "rs:16020"),
            ("hbase.masters", "m")
        ]),
        "hbase+rpc://rs:16020"
    );
    let registry = (
        "hbase.client.registry.impl",
        "org.apache.hadoop.hbase.client.RpcConnectionRegistry",
    );
    assert_eq!(
        address(&[
            registry,
            ("hbase.master.hostname", "m"),
            ("hbase.master.port", "7")
        ]),
        "hbase+rpc://m:7"
    );
}

#[test]
fn unsupported_settings_are_named() {
    let warnings = |properties: &[(&str, &str)]| {
        let config = Config::from_hbase_site(&site(properties)).unwrap();
        config.warnings().join("; ")
    };
    assert_eq!(
        warnings(&[(
            "hbase.client.rpc.codec",
            "org.apache.hadoop.hbase.codec.KeyValueCodec"
        )]),
        ""
    );
    for (key, value) in [
        ("hbase.client.rpc.compressor", "a.Compressor"),
        (
            "hbase.client.rpc.codec",
            "org.apache.hadoop.hbase.codec.KeyValueCodecWithTags",
        ),
        ("hbase.client.default.rpc.codec", "a.Codec"),
        #[cfg(feature = "zookeeper")]
        ("hbase.client.registry.impl", "a.Registry"),
    ] {
        let said = warnings(&[("hbase.masters", "m"), (key, value)]);
        assert!(said.contains(key) && said.contains(value), "{said}");
    }
}

#[test]
fn tcp_options_that_are_switched_off_are_named() {
    for (key, _) in ALWAYS_ON {
        for (value, warnings) in [("true", 0), ("false", 1)] {
            let config = Config::from_hbase_site(&site(&[("hbase.masters", "m"), (key, value)]));
            assert_eq!(config.unwrap().warnings().len(), warnings, "{key} {value}");
        }
    }
}

#[test]
fn pool_of_zero_or_less_is_one_connection() {
    for (value, connections) in [("-1", 1), ("0", 1), ("4", 4), ("1000", 255)] {
        let properties = [("hbase.masters", "m"), ("hbase.client.ipc.pool.size", value)];
        let config = Config::from_hbase_site(&site(&properties)).unwrap();
        assert_eq!(config.connections_per_server(), connections, "{value}");
    }
}

#[test]
fn compressor_is_used_if_it_is_compiled_in() {
    const GZIP: &str = "org.apache.hadoop.io.compress.GzipCodec";
    let properties = [("hbase.masters", "m"), ("hbase.client.rpc.compressor", GZIP)];
    let config = Config::from_hbase_site(&site(&properties)).unwrap();
    let class = config.compression().map(|compression| compression.class());
    let is_compiled_in = cfg!(feature = "compression");
    assert_eq!(class, is_compiled_in.then_some(GZIP));
    assert_eq!(
        config.warnings().is_empty(),
        is_compiled_in,
        "{:?}",
        config.warnings()
    );
}

#[cfg(feature = "zookeeper")]
#[test]
fn path_of_a_quorum_is_the_parent_if_the_znode_is_its_root() {
    let config = Config::from_hbase_site(&site(&[
        ("hbase.zookeeper.quorum", "zk1:2181/chroot/"),
        ("zookeeper.znode.parent", "/"),
    ]));
    assert_eq!(
        config.unwrap().address().to_string(),
        "hbase+zk://zk1:2181/chroot"
    );
}

#[cfg(feature = "zookeeper")]
#[test]
fn quorum_wins_over_masters_unless_the_registry_is_named() {
    let both = [("hbase.zookeeper.quorum", "zk"), ("hbase.masters", "m")];
    let config = Config::from_hbase_site(&site(&both)).unwrap();
    assert_eq!(config.address().to_string(), "hbase+zk://zk:2181/hbase");
    let [warning] = config.warnings() else {
        panic!("one warning, and not {:?}", config.warnings());
    };
    assert!(warning.contains("hbase.masters is not used"), "{warning}");
    for (class, address) in [
        (
            "org.apache.hadoop.hbase.client.ZKConnectionRegistry",
            "hbase+zk://zk:2181/hbase",
        ),
        (
            "org.apache.hadoop.hbase.client.RpcConnectionRegistry",
            "hbase+rpc://m:16000",
        ),
    ] {
        let named = [&both[..], &[("hbase.client.registry.impl", class)]].concat();
        let config = Config::from_hbase_site(&site(&named)).unwrap();
        assert_eq!(config.address().to_string(), address);
        assert!(config.warnings().is_empty(), "{:?}", config.warnings());
    }
}

#[test]
fn values_refer_to_each_other() {
    let config = Config::from_hbase_site(&site(&[
        ("hbase.masters", "${m.one}:1,${m.two}:1"),
        ("m.one", "a.${domain}"),
        ("m.two", "b.${domain}"),
        ("domain", "example"),
    ]));
    let config = config.unwrap();
    assert_eq!(
        config.address().to_string(),
        "hbase+rpc://a.example:1,b.example:1"
    );
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(xml in "[<>/a-z&;#!\\[\\] \"=?-]{0,80}") {
        let _ = Config::from_hbase_site(&xml);
    }
}

fn uri(uri: &str) -> ConnectionUri {
    uri.parse().unwrap()
}

#[test]
fn parameters_are_settings() {
    let config = uri("hbase+rpc://m?hbase.client.pause=7&hbase.rpc.timeout=").config();
    let config = config.unwrap();
    assert_eq!(config.pause(), Duration::from_millis(7));
    assert_eq!(config.read_timeout(), Duration::from_secs(20));
    assert!(config.warnings().is_empty(), "{:?}", config.warnings());
    let error = uri("hbase+rpc://m?hbase.client.pause=soon").config();
    let error = error.unwrap_err().to_string();
    assert!(
        error.contains("connection URI: hbase.client.pause is \"soon\""),
        "{error}"
    );
}

#[test]
fn parameters_that_are_not_read_are_named() {
    let uri = uri("hbase+rpc://m?hbase.client.puase=7&hbase.client.retries.number=3");
    let config = uri.config().unwrap();
    let warnings = config.warnings().join("\n");
    assert!(
        warnings.contains("hbase.client.puase is not read") && warnings.contains("retries.number"),
        "{warnings}"
    );
    assert!(!warnings.contains("retries.number is not read"), "{warnings}");
}

#[test]
fn parameters_override_files() {
    let folder = tempfile::tempdir().unwrap();
    let property = |name, value, is_final| {
        format!("<property><name>{name}</name><value>{value}</value><final>{is_final}</final></property>")
    };
    let site = format!(
        "<configuration>{}{}{}</configuration>",
        property("hbase.zookeeper.quorum", "zk", true),
        property("hbase.client.pause", "7", true),
        property("hbase.client.operation.timeout", "900", false),
    );
    let file = folder.path().join("hbase-site.xml");
    fs::write(&file, site).unwrap();
    let uri = uri("hbase+rpc://m?hbase.client.pause=8");
    for config in [uri.over_hbase_site_file(&file), uri.over_conf_dir(&folder)] {
        let config = config.unwrap();
        assert_eq!(config.address().to_string(), "hbase+rpc://m:16000");
        assert_eq!(config.pause(), Duration::from_millis(8));
        assert_eq!(config.operation_timeout(), Duration::from_millis(900));
    }
}
