//! What holds on every store: a file, memory, and PostgreSQL. Each test is run on all three, or on those it is for.

mod blobs;
mod events;
mod ground;
mod leases;
mod migrations;
mod notices;
mod tasks;
mod transactions;
mod values;

pub(crate) use ground::Ground;

/// Makes one test a store of an `async fn name(ground: Ground)`: `on! { file, memory, postgres: first, second }`.
macro_rules! on {
    ($($place:ident),+ : $($test:ident),+ $(,)?) => { on!(@places [$($place),+] [$($test),+]); };
    (@places [$place:ident $(, $rest:ident)*] $tests:tt) => {
        on!(@tests $place $tests);
        on!(@places [$($rest),*] $tests);
    };
    (@places [] $tests:tt) => {};
    (@tests $place:ident [$($test:ident),+]) => {
        mod $place {
            $(
                #[tokio::test]
                async fn $test() {
                    super::$test(crate::contract::Ground::$place()).await;
                }
            )+
        }
    };
}
pub(crate) use on;
