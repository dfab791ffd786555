//! What is read: a small library that the example makes itself, in three formats and two languages. Two of its documents
//! contradict each other.

/// Name, and content.
pub(crate) const SOURCES: [(&str, &str); 5] = [
    (
        "annual-report-2024.md",
        "# Annual report 2024\n\nThe Northbank wind farm began to operate in 2019.\n\nIn 2024 its installed capacity was \
         48 MW, after two turbines had been added in March.\n\nIt fed 131 GWh into the grid in 2024.\n",
    ),
    (
        "press-2022.html",
        "<html><body><h1>Northbank grows</h1><p>With an installed capacity of 42 MW, Northbank supplies 30,000 \
         homes.</p><p>Building it cost 61 million euros.</p></body></html>",
    ),
    (
        "regulator.csv",
        "plant,field,value,unit,as of\nNorthbank,installed capacity,48,MW,2024-12-31\nNorthbank,owner,Northbank \
         Energy AG,,2024-12-31\n",
    ),
    (
        "blog.txt",
        "I have heard that Northbank cost 95 million euros. My neighbour says so.\n\nIt began to operate in 2019, I \
         think.\n",
    ),
    ("新闻.md", "# 北岸风电场\n\n北岸风电场的建设费用为61百万欧元。\n\n2024年发电量为131 GWh。\n"),
];

/// How far a source is to be trusted: whoever must answer for a number counts more than whoever repeats it.
pub(crate) fn weight(name: &str) -> u8 {
    match name {
        "regulator.csv" => 3,
        "annual-report-2024.md" => 2,
        "press-2022.html" | "新闻.md" => 1,
        _ => 0,
    }
}

/// A question, the words that a sentence must have to speak of it, and the unit of its answer.
pub(crate) struct Question {
    pub(crate) id: &'static str,
    pub(crate) asks: &'static str,
    pub(crate) words: &'static [&'static str],
    pub(crate) unit: &'static str,
}

/// The chunks of the task: each is answered, and verified, by itself.
pub(crate) const QUESTIONS: [Question; 4] = [
    Question { id: "capacity", asks: "What capacity is installed?", words: &["installed capacity"], unit: "MW" },
    Question { id: "start", asks: "When did it begin to operate?", words: &["began to operate"], unit: "" },
    Question {
        id: "cost", asks: "What did building it cost?", words: &["cost", "建设费用"], unit: "million euros"
    },
    Question { id: "energy", asks: "How much energy did it feed in 2024?", words: &["GWh"], unit: "GWh" },
];
