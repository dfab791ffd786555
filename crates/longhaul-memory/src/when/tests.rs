//! Times as people write them, at one moment in one zone.

use super::*;

/// Saturday, 21 November 2026, 19:30 in Berlin (UTC+1).
const NOW: TimeMs = TimeMs(1_795_285_800_000);

fn berlin() -> Zone {
    Zone::named("Europe/Berlin").expect("the time zone database is installed")
}

fn shown(text: &str) -> String {
    let zone = berlin();
    let side = |time: Option<TimeMs>| time.map_or_else(|| "…".to_owned(), |time| zone.minute(time));
    match period(text, NOW, &zone) {
        Ok(Period { since, until }) => format!("{} to {}", side(since), side(until)),
        Err(error) => format!("{:?}", error.problem.unwrap_or("not understood")),
    }
}

fn check(expected: &str, texts: &[&str]) {
    for text in texts {
        assert_eq!(shown(text), expected, "{text}");
    }
}

#[test]
fn amounts_reach_back_from_now() {
    check("2026-11-14 19:30 to …", &["7d", "7 days", "7 days ago", "last 7 days", "1w", "a week ago", " 7D "]);
    check(
        "2026-11-14 19:30 to …",
        &["7天前", "最近7天", "七天前", "7日前", "1週間前", "１週間前", "一周前", "최근 7일", "7일 전", "1주 전"],
    );
    check("2026-11-07 19:30 to …", &["2 weeks ago", "两周前", "2週間前", "2주 전", "兩個星期前"]);
    // Clocks were changed between: the hour on the wall stays.
    check("2026-08-21 19:30 to …", &["3 months ago", "3mo", "3个月前", "3か月前", "3ヶ月前", "3개월 전"]);
    check("2025-11-21 19:30 to …", &["1y", "a year ago", "1年前", "1년 전"]);
    check("2026-11-21 16:30 to …", &["3h", "3 hours ago", "3小时前", "3時間前", "3시간 전"]);
    check("2026-11-21 19:00 to …", &["30m", "30 minutes ago", "30分前", "30分钟前", "30분 전"]);
}

#[test]
fn named_days_weeks_months_and_years_are_whole() {
    check("2026-11-21 00:00 to 2026-11-22 00:00", &["today", "今天", "今日", "오늘"]);
    check("2026-11-20 00:00 to 2026-11-21 00:00", &["yesterday", "Yesterday", "昨天", "昨日", "어제"]);
    check("2026-11-19 00:00 to 2026-11-20 00:00", &["day before yesterday", "前天", "一昨日", "おととい", "그저께"]);
    check(
        "2026-11-09 00:00 to 2026-11-16 00:00",
        &["last week", "上周", "上週", "先週", "지난주", "지난 주", "2026-W46"],
    );
    check("2026-11-16 00:00 to 2026-11-23 00:00", &["this week", "本周", "今週", "이번 주"]);
    check(
        "2026-10-01 00:00 to 2026-11-01 00:00",
        &["last month", "上个月", "上月", "先月", "지난달", "지난 달", "october"],
    );
    check("2025-01-01 00:00 to 2026-01-01 00:00", &["last year", "去年", "昨年", "작년", "2025", "2025年", "2025년"]);
    check("2026-11-16 00:00 to 2026-11-17 00:00", &["monday", "last monday", "星期一", "月曜日", "월요일"]);
    check("2026-11-14 00:00 to 2026-11-15 00:00", &["saturday"]); // today is one; a week ago is meant
    check("2025-12-01 00:00 to 2026-01-01 00:00", &["december", "12月", "12월"]);
}

#[test]
fn dates_are_those_of_the_zone() {
    check(
        "2026-11-01 00:00 to 2026-11-02 00:00",
        &["2026-11-01", "2026/11/1", "2026年11月1日", "2026년 11월 1일", "1 November 2026", "Nov 1, 2026"],
    );
    check("2026-11-01 00:00 to 2026-12-01 00:00", &["2026-11", "2026年11月", "November 2026", "２０２６年１１月"]);
    check("2026-07-01 00:00 to 2026-10-01 00:00", &["2026-Q3"]);
    check(
        "2026-11-01 09:30 to …",
        &["2026-11-01T09:30", "2026-11-01 09:30", "2026-11-01T08:30:00Z", "2026-11-01t10:30:00+02:00"],
    );
    // The day on which clocks are put back has 25 hours.
    let Ok(day) = period("2026-10-25", NOW, &berlin()) else { panic!("a date") };
    assert_eq!(day.until.zip(day.since).map(|(until, since)| until.0 - since.0), Some(25 * 3_600_000));
    let utc = period("2026-11-01", NOW, &Zone::utc());
    assert_eq!(utc.ok().and_then(|day| day.since), Some(TimeMs(1_793_491_200_000)));
}

#[test]
fn ranges_take_both_sides_whole() {
    check("2026-10-01 00:00 to 2026-12-01 00:00", &["2026-10..2026-11", "2026-10 .. 2026-11", "october..november"]);
    check("2026-11-20 00:00 to 2026-11-22 00:00", &["yesterday..today", "昨天..今天"]);
    check("2026-10-01 00:00 to …", &["2026-10.."]);
    check("… to 2026-11-21 00:00", &["..yesterday"]);
    check("2026-11-07 19:30 to 2026-11-14 19:30", &["2w..1w"]);
    check("\"it ends before it begins\"", &["2026-11..2026-10", "today..yesterday"]);
    check("\"both sides of `..` are empty\"", &[".."]);
}

#[test]
fn what_is_not_understood_is_an_error_with_examples() {
    check(
        "\"not understood\"",
        &[
            "soon",
            "last fortnight",
            "2026-13",
            "2026-02-30",
            "-7d",
            "0d",
            "d",
            "7",
            "99999999999999999999d",
            "2026-11-01T25:00",
            "昨",
            "9999999999y",
            "2026-W60",
            "20261101",
        ],
    );
    check("\"it is empty\"", &["", "   "]);
    check("\"it is too long\"", &[&"7".repeat(300)]);
    let error = since("last fortnight", NOW, &Zone::utc()).expect_err("no time");
    let said = error.to_string();
    assert!(
        said.starts_with("\"last fortnight\" is no time; write 7d, ") && said.contains("2026-10..2026-11"),
        "{said}"
    );
}

#[test]
fn one_end_of_a_time_is_taken_where_one_is_asked_for() {
    let zone = berlin();
    let minute = |time: Result<TimeMs, WhenError>| time.map(|time| zone.minute(time)).unwrap_or_default();
    assert_eq!(minute(since("last week", NOW, &zone)), "2026-11-09 00:00");
    assert_eq!(minute(until("last week", NOW, &zone)), "2026-11-16 00:00");
    assert_eq!(minute(until("7d", NOW, &zone)), "2026-11-14 19:30");
    assert_eq!(minute(ahead("30d", NOW, &zone)), "2026-12-21 19:30");
    assert_eq!(minute(ahead("in 2 hours", NOW, &zone)), "2026-11-21 21:30");
    assert_eq!(minute(ahead("2026-12-31", NOW, &zone)), "2027-01-01 00:00");
    assert!(ahead("yesterday", NOW, &zone).is_err() && ahead("2026-01-01", NOW, &zone).is_err());
    assert!(since("..today", NOW, &zone).is_err() && until("today..", NOW, &zone).is_err());
}

#[test]
fn times_in_other_languages_are_understood() {
    check(
        "2026-10-01 00:00 to 2026-11-01 00:00",
        &["letzten Monat", "le mois dernier", "el mes pasado", "il mese scorso", "mês passado", "в прошлом месяце"],
    );
    check("2026-11-20 00:00 to 2026-11-21 00:00", &["gestern", "hier", "ayer", "ieri", "ontem", "вчера"]);
    check(
        "2026-11-07 19:30 to …",
        &["two weeks ago", "a couple of weeks ago", "vor zwei Wochen", "il y a deux semaines", "hace dos semanas"],
    );
    check("2026-11-07 19:30 to …", &["due settimane fa", "duas semanas atrás", "2 недели назад"]);
}

/// What is mentioned, and what is left of the sentence.
fn heard(sentence: &str) -> String {
    let zone = berlin();
    let day = |time: Option<TimeMs>| time.map_or_else(|| "…".to_owned(), |time| zone.day(time));
    mentioned(sentence, NOW, &zone).map_or_else(String::new, |found| {
        format!("{} to {} | {}", day(found.period.since), day(found.period.until), found.rest)
    })
}

#[test]
fn a_time_is_heard_in_a_sentence() {
    for (sentence, expected) in [
        ("that project last month", "2026-10-01 to 2026-11-01 | that project"),
        (
            "What did we say yesterday about Ada's cache?",
            "2026-11-20 to 2026-11-21 | What did we say about Ada's cache?",
        ),
        ("the parser we discussed in May", "2026-05-01 to 2026-06-01 | the parser we discussed"),
        ("notes from 2025", "2025-01-01 to 2026-01-01 | notes from"),
        ("everything since last week on taxes", "2026-11-09 to … | everything on taxes"),
        ("what came before monday", "… to 2026-11-16 | what came"),
        ("the bug of two weeks ago", "2026-10-31 to 2026-11-14 | the bug of"),
        ("上个月那个项目", "2026-10-01 to 2026-11-01 | 那个项目"),
        ("我们3天前说的部署", "2026-11-17 to 2026-11-19 | 我们 说的部署"),
        ("先月のプロジェクト", "2026-10-01 to 2026-11-01 | のプロジェクト"),
        ("지난달에 이야기한 프로젝트", "2026-10-01 to 2026-11-01 | 에 이야기한 프로젝트"),
        ("das Projekt vom letzten Monat", "2026-10-01 to 2026-11-01 | das Projekt vom"),
        ("was wir vor zwei Wochen besprachen", "2026-10-31 to 2026-11-14 | was wir besprachen"),
        ("le projet du mois dernier", "2026-10-01 to 2026-11-01 | le projet du"),
    ] {
        assert_eq!(heard(sentence), expected, "{sentence}");
    }
}

#[test]
fn what_may_be_something_else_is_no_time() {
    for sentence in [
        "how may I deploy this",
        "it took 2 weeks",
        "port 8080 and error 2026",
        "was steht hier",
        "the sun and the march of time",
        "这个函数要三天",
        "今の設定",
        "d",
        "",
        "..",
    ] {
        assert_eq!(heard(sentence), "", "{sentence}");
    }
}

proptest::proptest! {
    #[test]
    fn no_sentence_makes_it_panic(text in "(\\PC|上个月|3天前|last month| |…){0,40}") {
        let _ = mentioned(&text, NOW, &berlin());
    }

    #[test]
    fn no_text_makes_it_panic(text in "\\PC{0,40}") {
        let _ = (period(&text, NOW, &Zone::utc()), ahead(&text, NOW, &Zone::utc()));
    }
}
