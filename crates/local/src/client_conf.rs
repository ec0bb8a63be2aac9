//! The configuration for clients of a guarded cluster, which need more than its address.

use std::{fs, path::PathBuf};

use super::{
    layout::{Layout, create_folder, remove, storage},
    ports::{Ports, ZOOKEEPER},
    properties::{LOOPBACK, Properties, ZNODE, properties, xml},
};
use crate::Result;

/// Writes the folder: an `hbase-site.xml` with the address of the cluster and these settings.
/// Removes the folder if there are no settings.
pub(super) fn write(layout: &Layout, ports: &Ports, settings: &Properties) -> Result<()> {
    let folder = layout.client_conf();
    remove(&folder)?;
    if settings.is_empty() {
        return Ok(());
    }
    create_folder(&folder)?;
    let mut site = properties([
        ("hbase.zookeeper.quorum", LOOPBACK.into()),
        (ZOOKEEPER, ports.zookeeper.to_string()),
        ("zookeeper.znode.parent", ZNODE.into()),
    ]);
    site.extend(settings.clone());
    let path = folder.join("hbase-site.xml");
    fs::write(&path, xml(&site)).map_err(|error| storage("can't write", &path, error))
}

/// Returns the folder if the cluster has one.
pub(super) fn folder(layout: &Layout) -> Option<PathBuf> {
    Some(layout.client_conf()).filter(|folder| folder.is_dir())
}

#[cfg(test)]
mod tests {
    use hbase_client::low_level::site_properties;

    use super::*;
    use crate::Home;

    #[test]
    fn folder_exists_only_with_settings() {
        let home = tempfile::tempdir().unwrap();
        let layout = Layout::new(&Home::new(home.path(), home.path()), "x").unwrap();
        let ports = Ports::choose(Some(1), &Properties::new(), None).unwrap();
        let settings = properties([("hbase.client.netty.tls.enabled", "true".into())]);
        write(&layout, &ports, &settings).unwrap();
        let site = fs::read_to_string(folder(&layout).unwrap().join("hbase-site.xml")).unwrap();
        let site = site_properties(&site).unwrap();
        assert_eq!(site["hbase.client.netty.tls.enabled"], "true");
        assert_eq!(site[ZOOKEEPER], ports.zookeeper.to_string());
        write(&layout, &ports, &Properties::new()).unwrap();
        assert_eq!(folder(&layout), None);
    }
}
