//! The words for times in English, Chinese, Japanese and Korean, the common ones in German, French, Spanish, Italian,
//! Portuguese and Russian, and amounts of units. Texts arrive folded: lower case, ordinary width, single spaces.

/// A unit of an amount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Year,
}

/// A stretch that has a name; counts go back from the present one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Named {
    Day(i64),
    Week(i64),
    Month(i64),
    Year(i64),
    /// From Monday, 0, to Sunday, 6.
    Weekday(i64),
    /// From January, 1, to December, 12.
    MonthOfYear(i8),
}

const UNITS: &[(Unit, &[&str])] = &[
    (
        Unit::Minute,
        &["m", "min", "mins", "minute", "minutes", "分", "分钟", "分鐘", "分間", "분", "minuten", "minutos", "minuti"],
    ),
    (
        Unit::Hour,
        &[
            "h",
            "hr",
            "hrs",
            "hour",
            "hours",
            "小时",
            "小時",
            "个小时",
            "個小時",
            "時間",
            "시간",
            "stunde",
            "stunden",
            "heure",
            "heures",
            "hora",
            "horas",
            "ora",
            "ore",
            "час",
            "часа",
            "часов",
        ],
    ),
    (
        Unit::Day,
        &[
            "d", "day", "days", "天", "日", "日間", "일", "tag", "tage", "tagen", "jour", "jours", "día", "días",
            "dia", "dias", "giorno", "giorni", "день", "дня", "дней",
        ],
    ),
    (
        Unit::Week,
        &[
            "w",
            "wk",
            "week",
            "weeks",
            "周",
            "週",
            "周间",
            "週間",
            "星期",
            "个星期",
            "個星期",
            "주",
            "주일",
            "woche",
            "wochen",
            "semaine",
            "semaines",
            "semana",
            "semanas",
            "settimana",
            "settimane",
            "неделю",
            "недели",
            "недель",
        ],
    ),
    (
        Unit::Month,
        &[
            "mo",
            "mon",
            "month",
            "months",
            "个月",
            "個月",
            "か月",
            "ヶ月",
            "ケ月",
            "カ月",
            "ヵ月",
            "개월",
            "달",
            "monat",
            "monate",
            "monaten",
            "mois",
            "mes",
            "meses",
            "mês",
            "mese",
            "mesi",
            "месяц",
            "месяца",
            "месяцев",
        ],
    ),
    (
        Unit::Year,
        &[
            "y", "yr", "year", "years", "年", "年間", "년", "jahr", "jahre", "jahren", "an", "ans", "année", "années",
            "año", "años", "ano", "anos", "anno", "anni", "год", "года", "лет",
        ],
    ),
];

/// Spaces do not count where the text is not English.
const NAMES: &[(Named, &[&str])] = &[
    (
        Named::Day(0),
        &["today", "今天", "今日", "きょう", "오늘", "heute", "aujourd'hui", "hoy", "oggi", "hoje", "сегодня"],
    ),
    (
        Named::Day(1),
        &["yesterday", "昨天", "昨日", "きのう", "어제", "gestern", "hier", "ayer", "ieri", "ontem", "вчера"],
    ),
    (
        Named::Day(2),
        &[
            "the day before yesterday",
            "day before yesterday",
            "前天",
            "一昨日",
            "おととい",
            "그저께",
            "그제",
            "vorgestern",
            "avant-hier",
            "anteayer",
            "l'altro ieri",
            "anteontem",
            "позавчера",
        ],
    ),
    (Named::Day(-1), &["tomorrow", "明天", "明日", "あした", "내일"]),
    (
        Named::Week(0),
        &[
            "this week",
            "本周",
            "本週",
            "这周",
            "這週",
            "这个星期",
            "這個星期",
            "今週",
            "이번주",
            "diese woche",
            "dieser woche",
            "cette semaine",
            "esta semana",
            "questa settimana",
            "на этой неделе",
        ],
    ),
    (
        Named::Week(1),
        &[
            "last week",
            "previous week",
            "上周",
            "上週",
            "上星期",
            "上个星期",
            "上個星期",
            "上礼拜",
            "先週",
            "지난주",
            "저번주",
            "letzte woche",
            "letzter woche",
            "vorige woche",
            "vergangene woche",
            "la semaine dernière",
            "semaine dernière",
            "la semana pasada",
            "semana pasada",
            "la settimana scorsa",
            "settimana scorsa",
            "semana passada",
            "на прошлой неделе",
        ],
    ),
    (Named::Week(2), &["the week before last", "week before last", "上上周", "上上週", "先々週", "지지난주"]),
    (
        Named::Month(0),
        &[
            "this month",
            "本月",
            "这个月",
            "這個月",
            "今月",
            "이번달",
            "diesen monat",
            "diesem monat",
            "ce mois-ci",
            "este mes",
            "questo mese",
            "este mês",
            "в этом месяце",
        ],
    ),
    (
        Named::Month(1),
        &[
            "last month",
            "previous month",
            "上月",
            "上个月",
            "上個月",
            "先月",
            "지난달",
            "저번달",
            "letzten monat",
            "letztem monat",
            "vorigen monat",
            "vergangenen monat",
            "le mois dernier",
            "mois dernier",
            "el mes pasado",
            "mes pasado",
            "il mese scorso",
            "mese scorso",
            "mês passado",
            "в прошлом месяце",
        ],
    ),
    (Named::Month(2), &["the month before last", "month before last", "上上个月", "上上個月", "先々月", "지지난달"]),
    (
        Named::Year(0),
        &[
            "this year",
            "今年",
            "ことし",
            "올해",
            "금년",
            "dieses jahr",
            "diesem jahr",
            "cette année",
            "este año",
            "quest'anno",
            "este ano",
            "в этом году",
        ],
    ),
    (
        Named::Year(1),
        &[
            "last year",
            "previous year",
            "去年",
            "昨年",
            "작년",
            "지난해",
            "letztes jahr",
            "letztem jahr",
            "voriges jahr",
            "vergangenes jahr",
            "l'année dernière",
            "année dernière",
            "l'an dernier",
            "el año pasado",
            "año pasado",
            "l'anno scorso",
            "anno scorso",
            "ano passado",
            "в прошлом году",
        ],
    ),
    (Named::Year(2), &["the year before last", "year before last", "前年", "一昨年", "재작년"]),
];

const WEEKDAYS: [&[&str]; 7] = [
    &["monday", "星期一", "周一", "週一", "月曜日", "月曜", "월요일"],
    &["tuesday", "星期二", "周二", "週二", "火曜日", "火曜", "화요일"],
    &["wednesday", "星期三", "周三", "週三", "水曜日", "水曜", "수요일"],
    &["thursday", "星期四", "周四", "週四", "木曜日", "木曜", "목요일"],
    &["friday", "星期五", "周五", "週五", "金曜日", "金曜", "금요일"],
    &["saturday", "星期六", "周六", "週六", "土曜日", "土曜", "토요일"],
    &["sunday", "星期日", "星期天", "周日", "週日", "日曜日", "日曜", "일요일"],
];

const MONTHS: [&[&str]; 12] = [
    &["january", "jan"],
    &["february", "feb"],
    &["march", "mar"],
    &["april", "apr"],
    &["may"],
    &["june", "jun"],
    &["july", "jul"],
    &["august", "aug"],
    &["september", "sep", "sept"],
    &["october", "oct"],
    &["november", "nov"],
    &["december", "dec"],
];

/// A stretch by its name.
pub(super) fn named(text: &str) -> Option<Named> {
    let close: String = text.split(' ').collect();
    let found = NAMES.iter().find(|(_, names)| names.iter().any(|name| *name == text || *name == close));
    if let Some((named, _)) = found {
        return Some(*named);
    }
    let day = text.strip_prefix("last ").or_else(|| text.strip_prefix("on ")).unwrap_or(text);
    if let Some(index) = WEEKDAYS.iter().position(|names| names.contains(&day)) {
        return i64::try_from(index).ok().map(Named::Weekday);
    }
    let month = text.strip_prefix("last ").or_else(|| text.strip_prefix("in ")).unwrap_or(text);
    month_named(month).or_else(|| month_numbered(&close)).map(Named::MonthOfYear)
}

fn month_named(text: &str) -> Option<i8> {
    let index = MONTHS.iter().position(|names| names.contains(&text))?;
    i8::try_from(index + 1).ok()
}

/// `10月`, `10월`.
fn month_numbered(text: &str) -> Option<i8> {
    let number = text.strip_suffix('月').or_else(|| text.strip_suffix('월'))?;
    i8::try_from(count(number)?).ok().filter(|month| (1..=12).contains(month))
}

/// An amount that lies back: `7d`, `last 7 days`, `2 weeks ago`, `3天前`, `最近7天`, `지난 7일`.
pub(super) fn amount_back(text: &str) -> Option<(i64, Unit)> {
    const BEFORE: &[&str] = &[
        "the last ",
        "the past ",
        "last ",
        "past ",
        "最近",
        "过去",
        "過去",
        "近",
        "ここ",
        "최근 ",
        "최근",
        "지난 ",
        "지난",
        "vor ",
        "die letzten ",
        "letzten ",
        "il y a ",
        "hace ",
        "há ",
    ];
    const AFTER: &[&str] = &[" ago", "以前", "之前", "前", " 전", "전", "以内", "内", " fa", " atrás", " назад"];
    if let Some(rest) = BEFORE.iter().find_map(|word| text.strip_prefix(word)) {
        return amount(rest.trim());
    }
    match AFTER.iter().find_map(|word| text.strip_suffix(word)) {
        Some(rest) => amount(rest.trim()),
        None => amount(text),
    }
}

/// `7d`, `2 weeks`, `a month`, `三天`.
pub(super) fn amount(text: &str) -> Option<(i64, Unit)> {
    let digits = text.find(|char: char| !char.is_ascii_digit() && !HAN.contains(&char)).unwrap_or(text.len());
    let text = text.strip_prefix("a couple of ").map_or_else(|| text.to_owned(), |rest| format!("two {rest}"));
    let text = text.strip_prefix("a few ").map_or_else(|| text.clone(), |rest| format!("three {rest}"));
    let spelt = text.split_once(' ').and_then(|(word, rest)| Some((spelt_out(word)?, rest)));
    let (counted, rest) = match spelt {
        Some((counted, rest)) => (Some(counted), rest),
        None => (count(text.get(..digits)?), text.get(digits..)?),
    };
    let rest = rest.trim();
    let unit = UNITS.iter().find(|(_, names)| names.contains(&rest))?.0;
    // "2026年" is a year of the calendar.
    counted.filter(|count| unit != Unit::Year || *count < 1000).map(|count| (count, unit))
}

/// A small number as a word.
fn spelt_out(word: &str) -> Option<i64> {
    const WORDS: &[(i64, &[&str])] = &[
        (1, &["a", "an", "one", "einem", "einer", "un", "une", "una", "uno", "um", "uma", "одну"]),
        (2, &["two", "zwei", "deux", "dos", "due", "dois", "duas", "два", "две"]),
        (3, &["three", "drei", "trois", "tres", "tre", "três", "три"]),
        (4, &["four", "vier", "quatre", "cuatro", "quattro", "quatro", "четыре"]),
        (5, &["five", "fünf", "cinq", "cinco", "cinque", "пять"]),
        (6, &["six", "sechs", "seis", "sei", "шесть"]),
        (7, &["seven", "sieben", "sept", "siete", "sette", "sete", "семь"]),
        (8, &["eight", "acht", "huit", "ocho", "otto", "oito", "восемь"]),
        (9, &["nine", "neun", "neuf", "nueve", "nove", "девять"]),
        (10, &["ten", "zehn", "dix", "diez", "dieci", "dez", "десять"]),
        (11, &["eleven", "elf"]),
        (12, &["twelve", "zwölf"]),
    ];
    WORDS.iter().find(|(_, words)| words.contains(&word)).map(|(number, _)| *number)
}

const HAN: [char; 11] = ['一', '二', '两', '兩', '三', '四', '五', '六', '七', '八', '九'];

/// Digits, or one Chinese numeral below ten.
fn count(text: &str) -> Option<i64> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().ok().filter(|count| *count > 0);
    }
    match text {
        "一" => Some(1),
        "二" | "两" | "兩" => Some(2),
        "三" => Some(3),
        "四" => Some(4),
        "五" => Some(5),
        "六" => Some(6),
        "七" => Some(7),
        "八" => Some(8),
        "九" => Some(9),
        _ => None,
    }
}

/// A date in words as a date in numbers: `2026年11月1日`, `2026년 11월`, `november 2026`, `1 november 2026`,
/// `november 1, 2026`. Anything else as it is.
pub(super) fn numbered(text: &str) -> String {
    if text.contains(['年', '년']) {
        let close: String = text.split(' ').collect();
        let dashed = close.replace(['年', '년', '月', '월'], "-");
        return dashed.trim_end_matches(['日', '일', '号', '號']).trim_end_matches('-').to_owned();
    }
    let parts: Vec<&str> = text.split([' ', ',']).filter(|part| !part.is_empty()).collect();
    let dated = match parts.as_slice() {
        [month, year] => month_named(month).map(|month| format!("{year}-{month}")),
        [first, second, year] => match (month_named(first), month_named(second)) {
            (Some(month), _) => Some(format!("{year}-{month}-{second}")),
            (None, Some(month)) => Some(format!("{year}-{month}-{first}")),
            (None, None) => None,
        },
        _ => None,
    };
    dated.unwrap_or_else(|| text.to_owned())
}
