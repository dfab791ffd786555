//! The machine over single situations, and over random shapes with tasks that finish in random order.

use proptest::prelude::*;

use super::*;
use crate::{
    Input,
    shape::{NodeShape, Ways},
};

const QUIET: Signals = Signals { cancelled: false, stop: false, supersteps_max: 10 };

fn planned(node: &str) -> Planned {
    Planned { node: node.into(), input: None }
}

fn sent(node: &str, input: u64) -> Planned {
    Planned { node: node.into(), input: Some(Input::of(&input).unwrap()) }
}

fn at(superstep: u64, frontier: &[&str]) -> Position {
    Position { superstep, frontier: frontier.iter().map(|node| planned(node)).collect(), ..Position::default() }
}

fn names(names: &[&str]) -> Vec<Arc<str>> {
    names.iter().map(|name| Arc::from(*name)).collect()
}

/// A shape of these nodes, without ways.
fn shape(nodes: &[&str]) -> Shape {
    let node = |name: &&str| (Arc::from(*name), NodeShape::default());
    Shape {
        name: "test".to_owned(),
        version: 1,
        fields: BTreeMap::new(),
        nodes: nodes.iter().map(node).collect(),
        ways: BTreeMap::new(),
        joins: BTreeMap::new(),
    }
}

impl Shape {
    fn ways(&mut self, from: &str) -> &mut Ways {
        self.ways.entry(from.into()).or_default()
    }

    fn join(&mut self, from: &[&str], to: &str) {
        from.iter().for_each(|from| self.ways(from).joins.push(to.into()));
        self.joins.insert(to.into(), names(from));
    }

    fn step(&self, position: &Position) -> Position {
        let done = |(task, planned): (usize, &Planned)| Finished {
            task: task as u32,
            routes: self.routes(&planned.node, &Route::default(), None, Vec::new()).unwrap(),
        };
        close(self, position, &position.frontier.iter().enumerate().map(done).collect::<Vec<_>>()).unwrap()
    }
}

fn frontier(position: &Position) -> Vec<String> {
    position.frontier.iter().map(|planned| planned.node.to_string()).collect()
}

#[test]
fn what_comes_first_at_a_boundary() {
    for (position, signals, expected) in [
        (at(3, &["a"]), QUIET, Action::Run(4)),
        (at(3, &["a", "b"]), QUIET, Action::Run(4)),
        (at(3, &["a"]), Signals { cancelled: true, stop: true, supersteps_max: 0 }, Action::Cancel),
        (at(3, &["a"]), Signals { stop: true, supersteps_max: 0, ..QUIET }, Action::Stop),
        (at(10, &["a"]), QUIET, Action::Exhausted),
        (at(10, &[]), Signals { cancelled: true, stop: true, supersteps_max: 0 }, Action::Complete),
    ] {
        assert_eq!(plan(&position, signals), expected, "{position:?} {signals:?}");
    }
}

#[test]
fn a_position_is_small_json() {
    let mut position = at(3, &["a"]);
    assert_eq!(serde_json::to_string(&position).unwrap(), r#"{"s":3,"f":["a"]}"#);
    assert_eq!(serde_json::to_string(&at(9, &[])).unwrap(), r#"{"s":9}"#);
    position.frontier.push(sent("work", 7));
    position.arrived.insert("c".into(), BTreeSet::from(["a".into()]));
    position.deferred.insert("d".into());
    let json = serde_json::to_string(&position).unwrap();
    assert_eq!(json, r#"{"s":3,"f":["a",["work",7]],"j":{"c":["a"]},"d":["d"]}"#);
    assert_eq!(serde_json::from_str::<Position>(&json).unwrap(), position);
    for wrong in [r#"{"s":1,"f":[7]}"#, r#"{"s":1,"f":[["a"]]}"#, r#"{"s":1,"f":[[]]}"#, r#"{"f":["a"]}"#] {
        assert!(serde_json::from_str::<Position>(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn every_task_must_have_finished_once() {
    let shape = shape(&["a", "b"]);
    let done = |task| Finished { task, routes: Routes::default() };
    let position = at(4, &["a", "b"]);
    for (finished, missing) in
        [(vec![], 0), (vec![done(1)], 0), (vec![done(0), done(0)], 1), (vec![done(0), done(2)], 1)]
    {
        let error = close(&shape, &position, &finished).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!(
                "superstep 5 has 2 tasks and was to be closed with task {missing} not exactly once"
            )),
            "{error}"
        );
    }
    let error = close(&shape, &position, &[done(0), done(1), done(2)]).unwrap_err();
    assert!(matches!(error, RouteError::Open { task: 2, .. }));
}

#[test]
fn parallel_ways_meet_in_one_run_and_the_last_one_ends_the_frame() {
    let mut shape = shape(&["a", "b", "c", "d"]);
    shape.ways(START).edges = names(&["a", "b"]);
    shape.ways("a").edges = names(&["c"]);
    shape.ways("b").edges = names(&["c", END]);
    shape.ways("c").edges = names(&["d", END]);
    shape.ways("d").edges = names(&[END]);
    let mut position = start(&shape, &Routes::default());
    for expected in [&["a", "b"][..], &["c"], &["d"], &[]] {
        assert_eq!(frontier(&position), expected);
        position = shape.step(&position);
    }
}

#[test]
fn a_join_fires_once_for_each_time_that_all_have_finished_also_in_a_loop() {
    // a is quick, b takes two supersteps; c joins them and starts both again.
    let mut shape = shape(&["a", "b", "slow", "c"]);
    shape.ways(START).edges = names(&["a", "b"]);
    shape.ways("b").edges = names(&["slow"]);
    shape.join(&["a", "slow"], "c");
    shape.ways("c").edges = names(&["a", "b"]);
    let mut position = start(&shape, &Routes::default());
    for round in 0..3 {
        for expected in [&["a", "b"][..], &["slow"], &["c"]] {
            assert_eq!(frontier(&position), expected, "{round}");
            assert_eq!(position.arrived.len(), usize::from(expected == ["slow"]), "{round} {expected:?}");
            position = shape.step(&position);
        }
    }
}

#[test]
fn an_origin_that_goes_elsewhere_by_itself_has_not_arrived() {
    let mut shape = shape(&["a", "c"]);
    shape.ways(START).edges = names(&["a"]);
    shape.ways("a").goto = names(&["a"]);
    shape.join(&["a"], "c");
    shape.ways("c").edges = names(&[END]);
    let again = Route { goto: names(&["a"]), sends: Vec::new() };
    let position = start(&shape, &Routes::default());
    let routes = shape.routes("a", &again, None, Vec::new()).unwrap();
    let position = close(&shape, &position, &[Finished { task: 0, routes }]).unwrap();
    assert_eq!((frontier(&position), position.arrived.len()), (vec!["a".to_owned()], 0));
    assert_eq!(frontier(&shape.step(&position)), ["c"]);
}

#[test]
fn what_is_deferred_runs_once_when_nothing_else_is_left() {
    let mut shape = shape(&["a", "b", "c", "d"]);
    shape.nodes.get_mut("d").unwrap().deferred = true;
    shape.ways(START).edges = names(&["a", "b"]);
    shape.ways("a").edges = names(&["d"]);
    shape.ways("b").edges = names(&["c"]);
    shape.ways("c").edges = names(&["d"]);
    shape.ways("d").edges = names(&[END]);
    let mut position = start(&shape, &Routes::default());
    for (expected, deferred) in [(&["a", "b"][..], 0), (&["c"], 1), (&["d"], 0), (&[], 0)] {
        assert_eq!(frontier(&position), expected);
        assert_eq!(position.deferred.len(), deferred);
        position = shape.step(&position);
    }
}

#[test]
fn a_node_leads_only_where_the_graph_says() {
    let mut shape = shape(&["a", "b", "plain", "work"]);
    shape.nodes.get_mut("work").unwrap().takes_input = true;
    *shape.ways("a") = Ways {
        branch: names(&["b", END]),
        fan_out: names(&["work"]),
        goto: names(&["b", "work", END]),
        ..Ways::default()
    };
    shape.ways("b").goto = names(&["a", END]);
    let goto = |to: &[&str]| Route { goto: names(to), sends: Vec::new() };
    let send = |to: &str| Route { goto: Vec::new(), sends: vec![sent(to, 1)] };
    let nothing = Route::default();
    let large = Planned { node: "work".into(), input: Some(Input::of(&"x".repeat(70_000)).unwrap()) };
    for (node, own, chosen, sends, expected) in [
        (
            "a",
            &nothing,
            Some("a"),
            vec![],
            "the branch of a named \"a\", which is not among its targets b, __end__: name it there",
        ),
        (
            "a",
            &goto(&["plain"]),
            None,
            vec![],
            "the goto of a named \"plain\", which is not among its targets b, work, __end__",
        ),
        ("a", &goto(&["work"]), None, vec![], "a goes to work, which takes an input: use `send`"),
        ("a", &send("plain"), None, vec![], "the goto of a named \"plain\""),
        ("a", &send("b"), None, vec![], "a sends to b, which takes no input: use `goto`, or define it with"),
        (
            "a",
            &nothing,
            Some(END),
            vec![sent("b", 1)],
            "the fan-out of a named \"b\", which is not among its targets work",
        ),
        ("a", &nothing, Some(END), vec![large], "what a sends is refused"),
        (
            "b",
            &nothing,
            None,
            vec![],
            "b has no edges and did not say where to go: answer with `goto` to one of a, __end__",
        ),
    ] {
        let error = shape.routes(node, own, chosen, sends).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }
    let routes = shape.routes("a", &Route { goto: names(&[END]), sends: vec![sent("work", 2)] }, None, vec![]).unwrap();
    let closed = close(&shape, &at(0, &["a"]), &[Finished { task: 0, routes }]).unwrap();
    assert_eq!(closed.frontier, [sent("work", 2)]);
}

/// A random shape that passes its checks; every node is marked `each_arrival`, so that lengths do not matter.
fn any_shape() -> impl Strategy<Value = Shape> {
    let node = (any::<[u8; 5]>(), 0..12_u8);
    prop::collection::vec(node, 2..9).prop_map(|nodes| {
        let names: Vec<Arc<str>> = (0..nodes.len()).map(|n| format!("n{n}").into()).collect();
        let mut shape = shape(&names.iter().map(|name| &**name).collect::<Vec<_>>());
        let pick = |byte: u8, below: usize| usize::from(byte) % below.max(1);
        // Each node has one of those before it as parent, so that all can be reached.
        for (n, (bytes, kind)) in nodes.iter().enumerate() {
            let parent: Arc<str> = if n == 0 { START.into() } else { names[pick(bytes[0], n)].clone() };
            let node = shape.nodes.get_mut(&names[n]).unwrap();
            node.each_arrival = true;
            match kind {
                0..3 => {
                    node.takes_input = true;
                    shape.ways(&parent).fan_out.push(names[n].clone());
                }
                3 if n > 1 => {
                    let other = names[pick(bytes[1], n)].clone();
                    let mut origins: Vec<Arc<str>> = vec![names[pick(bytes[0], n)].clone(), other];
                    origins.dedup();
                    shape.join(&origins.iter().map(|name| &**name).collect::<Vec<_>>(), &names[n]);
                }
                4 => {
                    node.deferred = true;
                    shape.ways(&parent).edges.push(names[n].clone());
                }
                _ => shape.ways(&parent).edges.push(names[n].clone()),
            }
        }
        for (n, (bytes, _)) in nodes.iter().enumerate() {
            let back = names[pick(bytes[2], nodes.len())].clone();
            let plain = !shape.nodes[&back].takes_input;
            let ways = shape.ways(&names[n]);
            if bytes[3] % 2 == 0 && plain {
                ways.branch = vec![back.clone(), END.into()];
            }
            if bytes[4] % 3 == 0 && plain {
                ways.goto = vec![back, END.into()];
            }
            if ways.edges.is_empty() && ways.branch.is_empty() {
                ways.edges.push(END.into());
            }
        }
        shape
    })
}

/// What the state and the nodes' answers would say, as a function of place: some branch target, some sends, now and
/// then a goto.
fn answer(shape: &Shape, seed: u64, superstep: u64, task: usize, planned: &Planned) -> Routes {
    let text = format!("{seed} {superstep} {task} {}", serde_json::to_string(planned).unwrap());
    let hash = text.bytes().fold(seed, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let bits = hash >> 32;
    let ways = &shape.ways[&planned.node];
    let pick = |targets: &[Arc<str>]| targets.get(bits as usize % targets.len().max(1)).cloned();
    let own = match pick(&ways.goto) {
        Some(target) if bits % 7 == 0 => Route { goto: vec![target], sends: Vec::new() },
        Some(_) | None => Route::default(),
    };
    let chosen = pick(&ways.branch);
    let sends = (0..bits % 4).filter_map(|n| Some(sent(&pick(&ways.fan_out)?, superstep * 100 + n))).collect();
    shape.routes(&planned.node, &own, chosen.as_deref(), sends).unwrap()
}

/// Every position up to the end, or the first thirty. `shuffle` orders the finished tasks, `restart` says at which
/// closes the position goes through JSON.
fn history(shape: &Shape, seed: u64, shuffle: u64, restart: impl Fn(u64) -> bool) -> Vec<Position> {
    let mut position = start(shape, &shape.routes(START, &Route::default(), None, Vec::new()).unwrap());
    let mut all = vec![position.clone()];
    while let Action::Run(superstep) = plan(&position, Signals { supersteps_max: 30, ..QUIET }) {
        let mut finished: Vec<Finished> = Vec::new();
        for (task, planned) in position.frontier.iter().enumerate() {
            finished.push(Finished { task: task as u32, routes: answer(shape, seed, superstep, task, planned) });
        }
        finished.sort_by_key(|done| u64::from(done.task + 1).wrapping_mul(shuffle | 1).rotate_left(17) ^ shuffle);
        position = close(shape, &position, &finished).unwrap();
        if restart(superstep) {
            position = serde_json::from_str(&serde_json::to_string(&position).unwrap()).unwrap();
        }
        all.push(position.clone());
    }
    all
}

proptest! {
    #[test]
    fn neither_the_order_of_finishing_nor_a_restart_changes_anything(
        shape in any_shape(), seed: u64, shuffles: [u64; 3], restarts: u32,
    ) {
        prop_assume!(shape.check().is_ok());
        let undisturbed = history(&shape, seed, 0, |_| false);
        for shuffle in shuffles {
            prop_assert_eq!(&history(&shape, seed, shuffle, |_| false), &undisturbed);
        }
        prop_assert_eq!(&history(&shape, seed, shuffles[0], |step| restarts & (1 << step) != 0), &undisturbed);
        let text = serde_json::to_string(&shape).unwrap();
        let reread: Shape = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(reread.fingerprint(), shape.fingerprint());
        prop_assert_eq!(&history(&reread, seed, 0, |_| true), &undisturbed);
    }

    /// A second, naive telling of the rules, with counts in place of a machine.
    #[test]
    fn nothing_is_lost_and_nothing_runs_twice(shape in any_shape(), seed: u64) {
        prop_assume!(shape.check().is_ok());
        let mut arrived: BTreeMap<Arc<str>, BTreeSet<Arc<str>>> = BTreeMap::new();
        let mut waiting: BTreeSet<Arc<str>> = BTreeSet::new();
        for pair in history(&shape, seed, 0, |_| false).windows(2) {
            let (before, after) = (&pair[0], &pair[1]);
            let (mut plain, mut sends) = (BTreeSet::new(), Vec::new());
            for (task, planned) in before.frontier.iter().enumerate() {
                let routes = answer(&shape, seed, before.superstep + 1, task, planned);
                plain.extend(routes.chosen.into_iter().chain(routes.goto));
                sends.extend(routes.sends);
                if !routes.own {
                    let ways = &shape.ways[&planned.node];
                    plain.extend(ways.edges.iter().cloned());
                    for join in &ways.joins {
                        arrived.entry(join.clone()).or_default().insert(planned.node.clone());
                    }
                }
            }
            for (join, origins) in &shape.joins {
                let here = arrived.entry(join.clone()).or_default();
                if origins.iter().all(|origin| here.contains(origin)) {
                    here.clear();
                    plain.insert(join.clone());
                }
            }
            plain.remove(END);
            let (late, mut now): (BTreeSet<_>, BTreeSet<_>) = plain.into_iter().partition(|name| shape.nodes[name].deferred);
            waiting.extend(late);
            if now.is_empty() && sends.is_empty() {
                now = std::mem::take(&mut waiting);
            }
            let (found_sends, found): (Vec<_>, Vec<_>) = after.frontier.iter().cloned().partition(|planned| planned.input.is_some());
            prop_assert_eq!(found_sends, sends);
            prop_assert_eq!(found.len(), now.len(), "a node ran twice in one superstep");
            prop_assert_eq!(found.into_iter().map(|planned| planned.node).collect::<BTreeSet<_>>(), now);
            prop_assert!(!after.frontier.is_empty() || after.deferred.is_empty());
        }
    }
}

#[test]
fn enough_random_shapes_pass_their_checks() {
    // Else the properties above would hold of nothing.
    use proptest::{strategy::ValueTree, test_runner::TestRunner};
    let mut runner = TestRunner::deterministic();
    let shapes: Vec<Shape> = (0..300).map(|_| any_shape().new_tree(&mut runner).unwrap().current()).collect();
    let good: Vec<&Shape> = shapes.iter().filter(|shape| shape.check().is_ok()).collect();
    let with = |what: fn(&Shape) -> bool| good.iter().filter(|shape| what(shape)).count();
    assert!(good.len() > 100, "{}", good.len());
    assert!(with(|shape| !shape.joins.is_empty()) > 20);
    assert!(with(|shape| shape.nodes.values().any(|node| node.deferred)) > 20);
    assert!(with(|shape| shape.nodes.values().any(|node| node.takes_input)) > 20);
    assert!(with(|shape| history(shape, 1, 0, |_| false).iter().any(|position| !position.arrived.is_empty())) > 5);
    assert!(with(|shape| history(shape, 1, 0, |_| false).len() > 6) > 20);
}
