//! Backups that can be opened, made while others write, and the verification of stores.

use longhaul_store::StoreSettings;
use rusqlite::Connection;
use serde_json::Value;

use crate::{
    program::Account,
    shop::{Shop, block_on},
};

#[test]
fn a_backup_is_a_store_and_is_made_while_a_program_works() {
    let account = Account::new();
    // The program keeps its store open.
    let shop = block_on(async { Shop::open(StoreSettings::new(account.path("shop"))).await });
    let wait = block_on(shop.ask("order-17"));
    let made = account.run(&["backup", "copy", "--store", "shop"]);
    assert_eq!((made.code, made.err.as_str()), (Some(0), ""), "{made:?}");
    assert!(made.out.contains("~/copy\n") && made.out.contains("the database and 0 blobs, 0."), "{}", made.out);
    assert!(account.run(&["waits", "--store", "copy"]).out.contains(&wait));
    let twice = account.run(&["backup", "copy", "--store", "shop"]);
    assert_eq!((twice.code, twice.out.as_str()), (Some(2), ""), "{twice:?}");
    assert!(twice.err.contains("~/copy"), "{}", twice.err);
    drop(shop);
    assert_eq!(account.run(&["store", "verify", "--store", "copy"]).code, Some(0));
}

#[test]
fn verify_says_what_is_damaged_and_what_to_do() {
    let account = Account::new();
    block_on(async { Shop::open(StoreSettings::new(account.path("shop"))).await.ask("order-17").await });
    let sound = account.run(&["store", "verify", "--store", "shop"]);
    assert_eq!((sound.code, sound.err.as_str()), (Some(0), ""), "{sound:?}");
    assert!(sound.out.contains("shop is sound: ") && sound.out.contains(" checks, 0 blobs"), "{}", sound.out);

    let database = Connection::open(account.path("shop/longhaul.db")).unwrap();
    database.execute("DELETE FROM checkpoints", []).unwrap();
    database.execute("UPDATE steps SET execution_id = 'exec_gone'", []).unwrap();
    drop(database);
    let damaged = account.run(&["store", "verify", "--store", "shop"]);
    assert_eq!((damaged.code, damaged.err.as_str()), (Some(1), ""), "{damaged:?}");
    for part in ["exec_gone", " has no checkpoint", "to do: restore a backup", "is damaged: "] {
        assert!(damaged.out.contains(part), "{part} is missing from:\n{}", damaged.out);
    }
    let machine = account.run(&["store", "verify", "--store", "shop", "--json"]);
    let object: Value = serde_json::from_str(&machine.out).unwrap();
    assert_eq!((machine.code, &object["sound"]), (Some(1), &Value::Bool(false)));
    assert!(object["findings"].as_array().unwrap().len() >= 2, "{object}");
}
