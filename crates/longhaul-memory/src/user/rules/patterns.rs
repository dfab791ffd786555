//! The patterns: what people say of themselves and ask for, in eight languages.
//!
//! Of the patterns that could read a part of a sentence the first one in the table does, so a language's negations stand
//! before what they negate. `v` is what is said, `k` what it is said of.

use super::super::block::Block;

/// One pattern.
pub(super) struct Rule {
    /// Named in the proposals that come from it.
    pub(super) name: &'static str,
    /// With a group `v`.
    pub(super) pattern: &'static str,
    /// Where what it finds belongs.
    pub(super) block: Block,
    /// What its value means.
    pub(super) about: About,
    /// Where its value ends.
    pub(super) cut: Cut,
    /// 0 to 1.
    pub(super) confidence: f32,
}

/// What the value of a pattern means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum About {
    /// The one value of an attribute: somebody has one name.
    Single(&'static str),
    /// The one value of what group `k` names.
    Keyed(&'static str),
    /// One of many values.
    Many(&'static str),
    /// Liked (true) or not.
    Taste(bool),
    /// To be done always (true) or never.
    Habit(bool),
    /// "x over y", or liked.
    Choice,
    /// The user asked for it to be kept.
    Kept,
    /// The user asked for it to be forgotten.
    Forgotten,
}

/// Where a value ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cut {
    /// At the next word that no name holds.
    Name,
    /// At the next clause.
    Clause,
    /// With the sentence.
    Whole,
}

pub(super) const NAME_ENDS: &[&str] = &[
    ",",
    ";",
    "(",
    " and ",
    " but ",
    " because ",
    " so ",
    " since ",
    " now",
    " where ",
    " which ",
    " who ",
    " not ",
    " by the way",
    " und ",
    " aber ",
    " nicht ",
    " et ",
    " mais ",
    " pas ",
    " y ",
    " pero ",
    " no ",
    "，",
    "、",
    "；",
    "（",
    "而",
    "但",
    "不是",
    "ですが",
    "けど",
];
pub(super) const CLAUSE_ENDS: &[&str] = &[
    ";",
    ", but ",
    ", so ",
    ", and i ",
    " and i ",
    " and my ",
    ", because ",
    " because ",
    " but i ",
    " und ich ",
    " aber ",
    " weil ",
    " et je ",
    " mais ",
    " parce que ",
    " y yo ",
    " pero ",
    " porque ",
    "，",
    "；",
    "因为",
    "但是",
    "ので",
    "ですが",
    "けど",
];

const fn rule(
    name: &'static str,
    block: Block,
    about: About,
    cut: Cut,
    confidence: f32,
    pattern: &'static str,
) -> Rule {
    Rule { name, pattern, block, about, cut, confidence }
}

use About::{Choice, Forgotten, Habit, Kept, Keyed, Many, Single, Taste};
use Block::{Identity, Instructions, Other, People, Preferences, Projects};
use Cut::{Clause, Name, Whole};

/// What users say of themselves and ask for.
pub(super) const PATTERNS: &[Rule] = &[
    // English
    rule(
        "en.forget",
        Other,
        Forgotten,
        Whole,
        0.9,
        r"(?i)^(?:please |and |ok(?:ay)?,? )*(?:forget (?:about |that |what (?:you know|i (?:said|told you)) about )?|(?:do not|don't) remember (?:that )?|remove from (?:your )?memory (?:that )?)(?P<v>.+)$",
    ),
    rule(
        "en.remember",
        Other,
        Kept,
        Whole,
        0.95,
        r"(?i)^(?:please |and |also |so |ok(?:ay)?,? |can you |could you )*(?:remember|keep in mind|make a note|take note|note|(?:don't|do not|never) forget)(?: that|:|,)? (?P<v>.+)$",
    ),
    rule("en.name", Identity, Single("name"), Name, 0.95, r"(?i)\bmy (?:full |first )?name(?:'s| is) (?P<v>.+)$"),
    rule(
        "en.called",
        Identity,
        Single("name"),
        Name,
        0.85,
        r"\b(?:[Ii] am called|[Ii]'m called|[Pp]lease call me|[Cc]all me|[Yy]ou can call me) (?P<v>\p{Lu}.*)$",
    ),
    rule(
        "en.moved",
        Identity,
        Single("home"),
        Name,
        0.8,
        r"\b[Ii](?:'ve| have)? (?:just |recently |now )?moved to (?P<v>\p{Lu}.*)$",
    ),
    rule(
        "en.home",
        Identity,
        Single("home"),
        Name,
        0.85,
        r"\b[Ii](?:'m| am)? (?:now |currently )?(?:live|living|based) in (?P<v>\p{Lu}.*)$",
    ),
    rule(
        "en.employer",
        Identity,
        Single("employer"),
        Name,
        0.8,
        r"\b[Ii] (?:now |currently )?work (?:at|for) (?P<v>\p{Lu}.*)$",
    ),
    rule(
        "en.profession",
        Identity,
        Single("profession"),
        Name,
        0.8,
        r"(?i)\bi (?:work as|am working as) (?:an? )?(?P<v>.+)$",
    ),
    rule("en.speaks", Identity, Many("speaks"), Name, 0.7, r"\b[Ii] speak (?P<v>\p{Lu}\w+)"),
    rule("en.birthday", Identity, Single("birthday"), Name, 0.9, r"(?i)\bmy birthday is (?:on )?(?P<v>.+)$"),
    rule("en.timezone", Identity, Single("time zone"), Name, 0.9, r"(?i)\bmy time ?zone is (?P<v>.+)$"),
    rule("en.allergy", Preferences, Many("allergy"), Clause, 0.9, r"(?i)\bi(?:'m| am) allergic to (?P<v>.+)$"),
    rule(
        "en.diet",
        Preferences,
        Single("diet"),
        Name,
        0.85,
        r"(?i)\bi(?:'m| am) (?:a |now )?(?P<v>vegan|vegetarian|pescatarian|lactose intolerant)\b",
    ),
    rule(
        "en.people",
        People,
        Keyed("person"),
        Name,
        0.85,
        r"\b[Mm]y (?P<k>wife|husband|partner|son|daughter|mother|mom|father|dad|brother|sister|boss|manager|girlfriend|boyfriend|dog|cat)(?:'s name)? is (?:called |named )?(?P<v>\p{Lu}.*)$",
    ),
    rule(
        "en.favourite",
        Preferences,
        Keyed("favourite"),
        Clause,
        0.85,
        r"(?i)\bmy favou?rite (?P<k>[\w ]{2,30}?) (?:is|are) (?P<v>.+)$",
    ),
    rule(
        "en.prefer",
        Preferences,
        Choice,
        Clause,
        0.85,
        r"(?i)\bi (?:really |much |strongly |always |usually |generally |would |'d )*prefer (?P<v>.+)$",
    ),
    rule(
        "en.rather-not",
        Preferences,
        Taste(false),
        Clause,
        0.8,
        r"(?i)\bi (?:no longer|don't really|do not really|really don't|don't|do not|never) (?:like|love|enjoy|want|use|drink|eat) (?P<v>.+?)(?: any ?more| any longer)?$",
    ),
    rule(
        "en.dislike",
        Preferences,
        Taste(false),
        Clause,
        0.8,
        r"(?i)\bi (?:really |absolutely |just )*(?:dislike|hate|detest|can't stand|cannot stand) (?P<v>.+)$",
    ),
    rule(
        "en.like",
        Preferences,
        Taste(true),
        Clause,
        0.65,
        r"(?i)\bi (?:really |also |still )*(?:like|love|enjoy|adore) (?P<v>.+)$",
    ),
    rule(
        "en.never",
        Instructions,
        Habit(false),
        Whole,
        0.85,
        r"(?i)^(?:please,? |from now on,? |in (?:the )?future,? |also,? |and |you (?:should|must) )*(?:never|(?:do not|don't) ever) (?P<v>.+)$",
    ),
    rule(
        "en.never-from-now",
        Instructions,
        Habit(false),
        Whole,
        0.85,
        r"(?i)^(?:please,? )*(?:from now on|in (?:the )?future),? (?:please,? )*(?:do not|don't|stop) (?P<v>.+)$",
    ),
    rule(
        "en.always",
        Instructions,
        Habit(true),
        Whole,
        0.85,
        r"(?i)^(?:please,? |from now on,? |in (?:the )?future,? |also,? |and |you (?:should|must) )*always (?P<v>.+)$",
    ),
    rule(
        "en.from-now",
        Instructions,
        Habit(true),
        Whole,
        0.85,
        r"(?i)^(?:please,? )*(?:from now on|in (?:the )?future),? (?:please,? )*(?P<v>.+)$",
    ),
    rule(
        "en.project",
        Projects,
        Many("project"),
        Clause,
        0.6,
        r"(?i)\b(?:i'm|i am|we're|we are) (?:currently |now )?(?:working on|building|developing) (?P<v>.+)$",
    ),
    // German
    rule(
        "de.remember",
        Other,
        Kept,
        Whole,
        0.95,
        r"(?i)^(?:bitte |und |also )*(?:merke? dir|denke? daran|vergiss (?:bitte )?nicht|notiere?(?: dir)?)(?: bitte)?[,:]?(?: dass)? (?P<v>.+)$",
    ),
    rule(
        "de.forget",
        Other,
        Forgotten,
        Whole,
        0.9,
        r"(?i)^(?:bitte )?vergiss(?: bitte)?,? (?:dass |was (?:ich|du) über )?(?P<v>.+)$",
    ),
    rule(
        "de.name",
        Identity,
        Single("name"),
        Name,
        0.95,
        r"(?i)\b(?:ich hei(?:ß|ss)e|mein name ist|nenn(?:e)? mich(?: bitte)?) (?P<v>.+)$",
    ),
    rule(
        "de.home",
        Identity,
        Single("home"),
        Name,
        0.85,
        r"\b[Ii]ch (?:wohne|lebe)(?: jetzt| zurzeit)? in (?P<v>\p{Lu}.*)$",
    ),
    rule(
        "de.employer",
        Identity,
        Single("employer"),
        Name,
        0.8,
        r"\b[Ii]ch arbeite(?: jetzt)? (?:bei|für) (?P<v>\p{Lu}.*)$",
    ),
    rule("de.profession", Identity, Single("profession"), Name, 0.8, r"(?i)\bich arbeite als (?P<v>.+)$"),
    rule("de.prefer", Preferences, Taste(true), Clause, 0.85, r"(?i)\bich bevorzuge (?P<v>.+)$"),
    rule("de.dislike", Preferences, Taste(false), Clause, 0.8, r"(?i)\bich mag kein(?:e|en|er)? (?P<v>.+)$"),
    rule(
        "de.dislike-not",
        Preferences,
        Taste(false),
        Clause,
        0.8,
        r"(?i)\bich mag (?P<v>.+?) (?:gar )?nicht(?: mehr)?$",
    ),
    rule("de.hate", Preferences, Taste(false), Clause, 0.8, r"(?i)\bich (?:hasse|verabscheue) (?P<v>.+)$"),
    rule("de.like", Preferences, Taste(true), Clause, 0.65, r"(?i)\bich (?:mag|liebe) (?:sehr |gerne? )?(?P<v>.+)$"),
    rule(
        "de.never",
        Instructions,
        Habit(false),
        Whole,
        0.85,
        r"(?i)^(?:bitte |ab jetzt |in zukunft |künftig )*(?:niemals|nie(?: wieder)?) (?P<v>.+)$",
    ),
    rule(
        "de.always",
        Instructions,
        Habit(true),
        Whole,
        0.85,
        r"(?i)^(?:bitte |ab jetzt |in zukunft |künftig )*(?:immer|stets) (?P<v>.+)$",
    ),
    rule(
        "de.do-always",
        Instructions,
        Habit(true),
        Whole,
        0.85,
        r"(?i)^(?:bitte )?(?:antworte|schreibe?|nutze|verwende|benutze)(?: mir| bitte)* (?:immer|stets|ab jetzt|künftig) (?P<v>.+)$",
    ),
    rule(
        "de.project",
        Projects,
        Many("project"),
        Clause,
        0.6,
        r"(?i)\bich (?:arbeite|baue|entwickle)(?: gerade)? (?:an )?(?P<v>.+)$",
    ),
    // French
    rule(
        "fr.remember",
        Other,
        Kept,
        Whole,
        0.95,
        r"(?i)^(?:s'il te plaît,? )?(?:souviens-toi|rappelle-toi|retiens|n'oublie pas|note)(?: bien)?(?: que| qu'|:)? ?(?P<v>.+)$",
    ),
    rule("fr.forget", Other, Forgotten, Whole, 0.9, r"(?i)^(?:s'il te plaît,? )?oublie (?:que |qu')?(?P<v>.+)$"),
    rule(
        "fr.name",
        Identity,
        Single("name"),
        Name,
        0.95,
        r"(?i)\b(?:je m'appelle|je m’appelle|mon nom est|appelle-moi) (?P<v>.+)$",
    ),
    rule(
        "fr.home",
        Identity,
        Single("home"),
        Name,
        0.85,
        r"\b(?:[Jj]'habite|[Jj]’habite|[Jj]e vis) (?:à|en|au|aux) (?P<v>\p{Lu}.*)$",
    ),
    rule("fr.employer", Identity, Single("employer"), Name, 0.8, r"\b[Jj]e travaille (?:chez|pour) (?P<v>\p{Lu}.*)$"),
    rule("fr.prefer", Preferences, Taste(true), Clause, 0.85, r"(?i)\bje préfère (?P<v>.+)$"),
    rule(
        "fr.dislike",
        Preferences,
        Taste(false),
        Clause,
        0.8,
        r"(?i)\bje n['’]aime (?:pas|plus) (?:les |le |la |l'|du |de la |des )?(?P<v>.+)$",
    ),
    rule("fr.hate", Preferences, Taste(false), Clause, 0.8, r"(?i)\bje déteste (?:les |le |la |l')?(?P<v>.+)$"),
    rule(
        "fr.like",
        Preferences,
        Taste(true),
        Clause,
        0.65,
        r"(?i)\b(?:j['’]aime|j['’]adore) (?:bien |beaucoup )?(?:les |le |la |l')?(?P<v>.+)$",
    ),
    rule(
        "fr.always",
        Instructions,
        Habit(true),
        Whole,
        0.85,
        r"(?i)^(?:s'il te plaît,? |désormais,? )*(?:(?:réponds|écris|utilise)(?:-moi)? toujours|toujours) (?P<v>.+)$",
    ),
    rule("fr.never", Instructions, Habit(false), Whole, 0.85, r"(?i)^(?:ne|n')\s?(?P<v>.+? jamais .+)$"),
    // Spanish
    rule(
        "es.remember",
        Other,
        Kept,
        Whole,
        0.95,
        r"(?i)^(?:por favor,? )?(?:recuerda|no olvides|ten en cuenta|anota)(?: que|:)? (?P<v>.+)$",
    ),
    rule("es.forget", Other, Forgotten, Whole, 0.9, r"(?i)^(?:por favor,? )?olvida (?:que )?(?P<v>.+)$"),
    rule("es.name", Identity, Single("name"), Name, 0.95, r"(?i)\b(?:me llamo|mi nombre es|llámame) (?P<v>.+)$"),
    rule("es.home", Identity, Single("home"), Name, 0.85, r"\b[Vv]ivo (?:ahora )?en (?P<v>\p{Lu}.*)$"),
    rule("es.employer", Identity, Single("employer"), Name, 0.8, r"\b[Tt]rabajo (?:en|para) (?P<v>\p{Lu}.*)$"),
    rule("es.prefer", Preferences, Taste(true), Clause, 0.85, r"(?i)\bprefiero (?P<v>.+)$"),
    rule(
        "es.dislike",
        Preferences,
        Taste(false),
        Clause,
        0.8,
        r"(?i)\b(?:ya )?no me gustan? (?:el |la |los |las )?(?P<v>.+)$",
    ),
    rule("es.hate", Preferences, Taste(false), Clause, 0.8, r"(?i)\bodio (?:el |la |los |las )?(?P<v>.+)$"),
    rule(
        "es.like",
        Preferences,
        Taste(true),
        Clause,
        0.65,
        r"(?i)\bme (?:gustan?|encantan?) (?:mucho )?(?:el |la |los |las )?(?P<v>.+)$",
    ),
    rule("es.never", Instructions, Habit(false), Whole, 0.85, r"(?i)^(?:por favor,? )?nunca (?P<v>.+)$"),
    rule(
        "es.always",
        Instructions,
        Habit(true),
        Whole,
        0.85,
        r"(?i)^(?:por favor,? )?(?:responde siempre|escribe siempre|usa siempre|siempre) (?P<v>.+)$",
    ),
    // Chinese
    rule(
        "zh.remember",
        Other,
        Kept,
        Whole,
        0.95,
        r"^(?:好的?[，,])?(?:请)?(?:你)?(?:帮我)?(?:记住|记得|记一下|记下来|别忘了|不要忘记?)(?:[，,：:])?(?P<v>.+)$",
    ),
    rule("zh.forget", Other, Forgotten, Whole, 0.9, r"^(?:请)?(?:你)?(?:忘记|忘掉|忘了|不要再?记得?)(?P<v>.+)$"),
    rule("zh.name", Identity, Single("name"), Name, 0.95, r"我的(?:名字|姓名)(?:是|叫)(?P<v>[^不了].{0,30})$"),
    rule(
        "zh.called",
        Identity,
        Single("name"),
        Name,
        0.9,
        r"(?:^|[，,。])(?:你好[，,])?(?:大家好[，,])?(?:我叫|请?叫我|可以叫我)(?P<v>[^了他她它你不车醒停].{0,30})$",
    ),
    rule(
        "zh.home",
        Identity,
        Single("home"),
        Name,
        0.85,
        r"我(?:现在|目前|一直)?(?:住在|居住在|搬到了?|搬去了?)(?P<v>.{1,30})$",
    ),
    rule(
        "zh.employer",
        Identity,
        Single("employer"),
        Name,
        0.8,
        r"我(?:现在|目前)?在(?P<v>[^，,]{1,20}?)(?:工作|上班|任职)",
    ),
    rule(
        "zh.profession",
        Identity,
        Single("profession"),
        Name,
        0.75,
        r"我是(?:一名|一个|一位|名|个)(?P<v>[^，,的]{2,20})$",
    ),
    rule(
        "zh.people",
        People,
        Keyed("person"),
        Name,
        0.85,
        r"我的?(?P<k>妻子|老婆|丈夫|老公|儿子|女儿|妈妈|爸爸|母亲|父亲|哥哥|姐姐|弟弟|妹妹|老板|同事|狗|猫)(?:的名字)?(?:叫|名叫|是叫)(?P<v>.{1,20})$",
    ),
    rule(
        "zh.favourite",
        Preferences,
        Keyed("favourite"),
        Clause,
        0.85,
        r"我最(?:喜欢|爱)的(?P<k>[^，,是]{1,12})是(?P<v>.{1,40})$",
    ),
    rule(
        "zh.dislike",
        Preferences,
        Taste(false),
        Clause,
        0.8,
        r"我(?:真的|非常|很|一点也|一点都|其实)?(?:不太喜欢|不再喜欢|不喜欢|不爱|不想要|讨厌|最讨厌)(?P<v>.+)$",
    ),
    rule(
        "zh.prefer",
        Preferences,
        Taste(true),
        Clause,
        0.85,
        r"我(?:更喜欢|更偏好|比较喜欢|偏好|偏爱|更愿意|倾向于)(?P<v>.+)$",
    ),
    rule(
        "zh.like",
        Preferences,
        Taste(true),
        Clause,
        0.7,
        r"我(?:真的|也|还是)?(?:很|非常|特别|最|一直)?(?:喜欢|爱)(?P<v>.+)$",
    ),
    rule(
        "zh.never",
        Instructions,
        Habit(false),
        Whole,
        0.85,
        r"^(?:请)?(?:你)?(?:以后|今后|从现在开始|从今以后)?[，,]?(?:请)?(?:都)?(?:永远不要|永远别|绝对不要|绝不要?|千万不要|千万别|再也不要|不要再|别再)(?P<v>.+)$",
    ),
    rule(
        "zh.never-from-now",
        Instructions,
        Habit(false),
        Whole,
        0.85,
        r"^(?:请)?(?:你)?(?:以后|今后|从现在开始|从今以后)[，,]?(?:请)?(?:都)?(?:不要|别)(?P<v>.+)$",
    ),
    rule(
        "zh.always",
        Instructions,
        Habit(true),
        Whole,
        0.85,
        r"^(?:请)?(?:你)?(?:以后|今后|从现在开始|从今以后)?[，,]?(?:请)?(?:总是|始终|每次都|务必|一律|永远)(?P<v>.+)$",
    ),
    rule(
        "zh.from-now",
        Instructions,
        Habit(true),
        Whole,
        0.85,
        r"^(?:请)?(?:你)?(?:以后|今后|从现在开始|从今以后)[，,]?(?:请)?(?:都)?(?P<v>.+)$",
    ),
    rule(
        "zh.project",
        Projects,
        Many("project"),
        Clause,
        0.6,
        r"我(?:们)?(?:正在|最近在)(?:做|开发|写|构建)(?P<v>.{2,40})$",
    ),
    // Japanese
    rule(
        "ja.remember-this",
        Other,
        Kept,
        Whole,
        0.95,
        r"^(?:これを)?覚えておいて(?:ください|下さい|ね)?[、,:：](?P<v>.+)$",
    ),
    rule(
        "ja.remember",
        Other,
        Kept,
        Whole,
        0.95,
        r"^(?P<v>.+?)(?:ということを|ことを|のを|を|と)?(?:覚えて(?:おいて)?|忘れないで)(?:ください|下さい|ね|ほしい|欲しい)?$",
    ),
    rule(
        "ja.forget",
        Other,
        Forgotten,
        Whole,
        0.9,
        r"^(?P<v>.+?)(?:ということは|のことは|ことは|については|を|は)?忘れて(?:ください|下さい|ね)?$",
    ),
    rule(
        "ja.name",
        Identity,
        Single("name"),
        Name,
        0.95,
        r"(?:私|僕|俺|わたし|ぼく)?の?(?:名前|氏名)は(?P<v>[^、,]{1,30}?)(?:です|だよ?|といいます|と言います|と申します)?$",
    ),
    rule(
        "ja.called",
        Identity,
        Single("name"),
        Name,
        0.9,
        r"(?:私|僕|俺|わたし|ぼく)は(?P<v>[^、,]{1,30}?)(?:と申します|といいます|と言います|と呼んでください)$",
    ),
    rule(
        "ja.home",
        Identity,
        Single("home"),
        Name,
        0.85,
        r"(?:(?:私|僕|俺)は|^|今は)(?P<v>[^、,は]{1,20}?)に住んで(?:います|いる|ます)",
    ),
    rule(
        "ja.employer",
        Identity,
        Single("employer"),
        Name,
        0.8,
        r"(?:(?:私|僕|俺)は|^)(?P<v>[^、,は]{1,20}?)(?:で働いて|に勤めて)(?:います|いる|ます)",
    ),
    rule(
        "ja.dislike",
        Preferences,
        Taste(false),
        Clause,
        0.8,
        r"(?:(?:私|僕|俺|わたし)は|^)(?P<v>[^、,]{1,40}?)(?:が|は)(?:大?嫌い|苦手|好きではありません|好きじゃ(?:ない|ありません)|好きではない)(?:です|だ|です。)?$",
    ),
    rule(
        "ja.like",
        Preferences,
        Taste(true),
        Clause,
        0.75,
        r"(?:(?:私|僕|俺|わたし)は|^)(?P<v>[^、,]{1,40}?)(?:の方が|のほうが|が)(?:大)?好き(?:です|だ|なんです)?$",
    ),
    rule(
        "ja.is-not",
        Identity,
        Forgotten,
        Whole,
        0.6,
        r"^(?:私|僕|俺|わたし|ぼく)は(?P<v>[^、,]{1,20}?)(?:ではありません|じゃありません|じゃない(?:です)?|ではない(?:です)?)$",
    ),
    rule("ja.is", Identity, Many("is"), Name, 0.7, r"^(?:私|僕|俺|わたし|ぼく)は(?P<v>[^、,]{1,20}?)です$"),
    rule(
        "ja.never",
        Instructions,
        Habit(false),
        Whole,
        0.85,
        r"^(?:今後は?|これからは?)?、?(?:絶対に|決して|二度と)(?P<v>.+?)(?:ないでください|ないで下さい|ないで|しないこと)$",
    ),
    rule(
        "ja.always",
        Instructions,
        Habit(true),
        Whole,
        0.85,
        r"^(?:今後は?|これからは?)?、?(?:いつも|常に|必ず|毎回)(?P<v>.+?)(?:ください|下さい|してほしい|して欲しい|お願いします)$",
    ),
    rule(
        "ja.from-now",
        Instructions,
        Habit(true),
        Whole,
        0.8,
        r"^(?:今後は?|これからは?)、?(?P<v>.+?)(?:ください|下さい|してほしい|お願いします)$",
    ),
    // Korean
    rule("ko.remember-this", Other, Kept, Whole, 0.95, r"^기억해\s?(?:줘요?|주세요|두세요|둬)[,:：]?\s+(?P<v>.+)$"),
    rule(
        "ko.remember",
        Other,
        Kept,
        Whole,
        0.95,
        r"^(?P<v>.+?)(?:다는 것을|다는 걸|라는 것을|라는 걸|을|를|고)?\s(?:꼭 )?(?:기억해\s?(?:줘요?|주세요|둬|두세요)|잊지 마(?:세요)?)$",
    ),
    rule(
        "ko.forget",
        Other,
        Forgotten,
        Whole,
        0.9,
        r"^(?P<v>.+?)(?:다는 것은|을|를|은|는)?\s잊어\s?(?:줘요?|주세요|버려)$",
    ),
    rule(
        "ko.name",
        Identity,
        Single("name"),
        Name,
        0.95,
        r"(?:제|내|저의|나의) 이름은 (?P<v>[^,]{1,20}?)(?:입니다|이에요|예요|이야|야|라고 합니다|이라고 합니다|라고 해요)$",
    ),
    rule(
        "ko.called",
        Identity,
        Single("name"),
        Name,
        0.85,
        r"^(?:안녕하세요,? )?(?:저는|나는|난|전) (?P<v>[^, ]{1,20}?)(?:이라고|라고) (?:합니다|해요|해|불러 ?주세요)$",
    ),
    rule(
        "ko.home",
        Identity,
        Single("home"),
        Name,
        0.85,
        r"(?:(?:저는|나는|난|전) |^)(?P<v>[^, ]{1,20}?)에 (?:살고 있|살아|삽니다|산다)[^,]*$",
    ),
    rule(
        "ko.employer",
        Identity,
        Single("employer"),
        Name,
        0.8,
        r"(?:(?:저는|나는|난|전) |^)(?P<v>[^, ]{1,20}?)에서 (?:일하고 있|일해|일합니다|근무)[^,]*$",
    ),
    rule(
        "ko.dislike",
        Preferences,
        Taste(false),
        Clause,
        0.8,
        r"(?:(?:저는|나는|난|전) |^)(?P<v>[^,]{1,40}?)(?:을|를|이|가|은|는) (?:정말 |너무 |별로 )?(?:싫어|싫습니다|안 좋아|좋아하지 않)[^,]*$",
    ),
    rule(
        "ko.like",
        Preferences,
        Taste(true),
        Clause,
        0.75,
        r"(?:(?:저는|나는|난|전) |^)(?P<v>[^,]{1,40}?)(?:을|를|이|가) (?:더 |정말 |아주 |제일 )?(?:좋아(?:해|하|합)|선호|좋습니다)[^,]*$",
    ),
    rule(
        "ko.never",
        Instructions,
        Habit(false),
        Whole,
        0.85,
        r"^(?:앞으로(?:는)? )?(?:절대로?|결코|다시는) (?P<v>.+?)지 (?:마세요|말아 ?주세요|마|말아줘)$",
    ),
    rule(
        "ko.always",
        Instructions,
        Habit(true),
        Whole,
        0.85,
        r"^(?:앞으로(?:는)? )?(?:항상|언제나|늘|반드시) (?P<v>.+?)(?:\s?주세요|\s?줘요?|세요|해|하세요)$",
    ),
    rule(
        "ko.from-now",
        Instructions,
        Habit(true),
        Whole,
        0.8,
        r"^앞으로(?:는)? (?P<v>.+?)(?:\s?주세요|\s?줘요?|세요)$",
    ),
];

/// How texts about "the user" say the same: what agents and models write.
pub(super) const THIRD_PERSON: &[Rule] = &[
    rule(
        "user.name",
        Identity,
        Single("name"),
        Name,
        0.9,
        r"(?i)^(?:the )?(?:user|person)(?:'s name is| is (?:called|named)) (?P<v>.+)$",
    ),
    rule("user.home", Identity, Single("home"), Name, 0.9, r"(?i)^(?:the )?user (?:lives|is based) in (?P<v>.+)$"),
    rule("user.employer", Identity, Single("employer"), Name, 0.9, r"(?i)^(?:the )?user works (?:at|for) (?P<v>.+)$"),
    rule(
        "user.profession",
        Identity,
        Single("profession"),
        Name,
        0.9,
        r"(?i)^(?:the )?user (?:works as|is) an? (?P<v>.+)$",
    ),
    rule("user.prefer", Preferences, Choice, Clause, 0.9, r"(?i)^(?:(?:the )?user )?prefers (?P<v>.+)$"),
    rule(
        "user.dislike",
        Preferences,
        Taste(false),
        Clause,
        0.9,
        r"(?i)^(?:(?:the )?user )?(?:dislikes|hates|does not like|doesn't like) (?P<v>.+)$",
    ),
    rule(
        "user.like",
        Preferences,
        Taste(true),
        Clause,
        0.9,
        r"(?i)^(?:(?:the )?user )?(?:likes|loves|enjoys) (?P<v>.+)$",
    ),
    rule("user.zh-like", Preferences, Taste(true), Clause, 0.9, r"^用户(?:更|很)?(?:喜欢|偏好)(?P<v>.+)$"),
    rule("user.zh-dislike", Preferences, Taste(false), Clause, 0.9, r"^用户(?:不喜欢|讨厌)(?P<v>.+)$"),
    rule("user.zh-name", Identity, Single("name"), Name, 0.9, r"^用户(?:的名字是|名叫|叫)(?P<v>.+)$"),
];

/// "x over y" taken apart.
pub(super) fn choice(value: &str) -> Option<(String, String)> {
    for between in [" over ", " rather than ", " instead of ", " to "] {
        if let Some((better, worse)) = value.split_once(between)
            && !better.is_empty()
            && !worse.is_empty()
            && !(between == " to " && better.split(' ').count() > 3)
        {
            return Some((bare(better), bare(worse)));
        }
    }
    None
}

/// Without the small words before and after a thing, so that "the coffee" and "coffee" are one.
pub(super) fn bare(value: &str) -> String {
    let mut rest = value.trim();
    let before = [
        "the ",
        "a ",
        "an ",
        "some ",
        "using ",
        "to use ",
        "drinking ",
        "eating ",
        "my ",
        "die ",
        "der ",
        "das ",
        "den ",
    ];
    while let Some(shorter) = before.iter().find_map(|word| rest.strip_prefix(word)) {
        rest = shorter.trim_start();
    }
    for word in [" very much", " a lot", " so much", " any more", " anymore", " mehr", " sehr"] {
        rest = rest.strip_suffix(word).unwrap_or(rest);
    }
    rest.trim().to_owned()
}
