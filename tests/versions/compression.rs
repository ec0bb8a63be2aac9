//! Compressed cells, and the classes that each release can use.

use super::*;

const HADOOP: &str = "org.apache.hadoop.io.compress";
const HBASE: &str = "org.apache.hadoop.hbase.io.compress";

#[tokio::test]
async fn each_release_uses_or_refuses_each_compressor() {
    on_each(async |cluster| {
        let shared = TestTable::create_on(cluster, "compression", plain, &["m"]).await;
        let uncompressed = cluster.connect().await;
        // Hadoop 3 has Snappy in Java. The jars of other codecs are not on the class path.
        let has_snappy = [HBaseVersion::V2_5, HBaseVersion::V2_6].contains(&cluster.status.version.unwrap());
        for (class, is_usable) in [
            (format!("{HADOOP}.DefaultCodec"), true),
            (format!("{HADOOP}.DeflateCodec"), true),
            (format!("{HADOOP}.GzipCodec"), true),
            (format!("{HBASE}.ReusableStreamGzipCodec"), true),
            (format!("{HADOOP}.SnappyCodec"), has_snappy),
            (format!("{HADOOP}.Lz4Codec"), false),
            (format!("{HADOOP}.ZStandardCodec"), false),
            (format!("{HBASE}.xerial.SnappyCodec"), false),
        ] {
            let compression = Compression::from_class(&class).unwrap();
            let config = cluster.config().with_compression(Some(compression));
            let connection = Connection::builder(config).connect().await.unwrap();
            let table = connection.table(shared.name.clone()).unwrap();
            let rows = (0..200).map(|number| {
                let row = format!("{} {class} {number:03}", if number % 2 == 0 { 'a' } else { 'z' });
                put(row, class.repeat(number * 10))
            });
            let written = table.mutate_many(rows).await;
            if !is_usable {
                let error = written.into_iter().find_map(Result::err).unwrap();
                assert_eq!(error.kind(), ClientErrorKind::InvalidConfig, "{error}");
                says(&error, &[&class, "GzipCodec"]);
                continue;
            }
            for result in written {
                result.unwrap();
            }
            for half in ["a", "z"] {
                let scan = || Scan::prefix(format!("{half} {class} "));
                let found = collect(table.scan(scan()).unwrap()).await;
                assert_eq!(found.len(), 100, "{class}");
                let plain = uncompressed.table(shared.name.clone()).unwrap();
                assert!(found == collect(plain.scan(scan()).unwrap()).await, "{class}");
            }
            connection.close().await;
        }
    })
    .await;
}
