//! Lists of tables.

use super::*;
use domain::experiment::{Arm, Subject};

#[test]
fn experiments_are_read_from_tables_and_variables() {
    let variable = "[{name = 'cheaper', models = ['main 90', 'mini 10']}, {name = 'tone', profiles = ['terse 50']}]";
    let read = settings(&[("STAFFAI_LLM__EXPERIMENTS", variable)]);
    let [cheaper, tone] = &read.llm.experiments[..] else { panic!("{:?}", read.llm.experiments) };
    let arm = |name: &str, percent| Arm { name: name.to_owned(), percent };
    assert_eq!((cheaper.subject, &cheaper.arms), (Subject::Models, &vec![arm("main", 90), arm("mini", 10)]));
    assert_eq!((tone.subject, tone.name.as_str()), (Subject::Profiles, "tone"));
    let toml = "[interjection]\nbackoff_after = 0\n[[llm.experiments]]\nname = \"tone\"\nprofiles = [\"terse 50\"]";
    let read = good(&[], &[("staffai.toml", toml)]).settings;
    assert!(read.llm.experiments == [tone.clone()] && read.wants_reactions());
    for (variable, expected) in [
        ("[{name = 'a'}]", "row 1 needs arms: set either models or profiles"),
        ("[{name = 'a', models = ['m 50'], profiles = ['p 50']}]", "either models or profiles"),
        ("[{name = 'a', models = ['m 50']}, {name = 'a', models = ['m 50']}]", "row 2 has the name of another row"),
        ("[{name = 'a', models = ['m 90', 'n 20']}]", "more than 100"),
        ("[{name = 'a', arms = ['m 90']}]", "arms"),
    ] {
        let told = bad(&[("STAFFAI_LLM__EXPERIMENTS", variable)], &[]).join("\n");
        assert!(told.contains("llm.experiments") && told.contains(expected), "{told}");
    }
}
