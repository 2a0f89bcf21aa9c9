//! What a parsed shell command is made of: words, redirections, commands. Plain values, no behaviour.

use std::cell::OnceCell;
use std::rc::Rc;

/// Parts that stand together without a blank.
pub type Word = Vec<Part>;

/// One part of a word.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// Text as it stands. Unquoted text may still hold globs, braces and a tilde.
    Lit {
        /// The text.
        text: String,
        /// Whether it stood in quotes.
        quoted: bool,
    },
    /// A parameter.
    Var(Box<Var>),
    /// A command substitution, `$(...)` or backticks.
    Sub {
        /// What runs.
        script: Script,
        /// Whether it stood in quotes.
        quoted: bool,
    },
    /// A process substitution.
    Proc {
        /// What runs.
        script: Script,
        /// True for `>(...)`.
        writes: bool,
    },
    /// An arithmetic expansion: a number; only the substitutions inside it matter.
    Arith(Word),
    /// The elements of `name=(...)`.
    Array(Vec<Word>),
}

impl Part {
    /// A text.
    #[must_use]
    pub fn lit(text: impl Into<String>, quoted: bool) -> Self {
        Part::Lit {
            text: text.into(),
            quoted,
        }
    }
}

/// A parameter: `op` is what follows the name in braces (":-", "#", "/", ":" ...), `arg` its operand.
#[derive(Clone, Debug, PartialEq)]
pub struct Var {
    /// The name, with its subscript; empty where the form is unknown.
    pub name: String,
    /// The operator, "" for none, "len" for `${#name}`, "!" for `${!name}`.
    pub op: &'static str,
    /// The operand.
    pub arg: Word,
    /// Whether it stood in quotes.
    pub quoted: bool,
}

/// `fd op target`. A here-document has op "<<" and its body, read after the line that names it.
#[derive(Clone, Debug, PartialEq)]
pub struct Redirect {
    /// The descriptor as written, "" for none.
    pub fd: String,
    /// The operator.
    pub op: &'static str,
    /// What stands after the operator.
    pub target: Word,
    /// A here-document's text, empty until its line ends; None for other operators.
    pub body: Option<Rc<OnceCell<Word>>>,
}

/// `name=value`, `name+=value`, `name[i]=value`.
#[derive(Clone, Debug, PartialEq)]
pub struct Assign {
    /// The variable.
    pub name: String,
    /// Its value.
    pub value: Word,
    /// True for `+=`.
    pub append: bool,
}

/// Assignments, words and redirections of one simple command.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Simple {
    /// Assignments before the program.
    pub assigns: Vec<Assign>,
    /// The program and its arguments.
    pub words: Vec<Word>,
    /// Redirections, wherever they stood.
    pub redirects: Vec<Redirect>,
}

/// for, select (`name` and `words`; words None means the positional parameters), while, until.
#[derive(Clone, Debug, PartialEq)]
pub struct Loop {
    /// The variable, "" for none.
    pub name: String,
    /// What it runs over.
    pub words: Option<Vec<Word>>,
    /// What runs before each turn.
    pub cond: Script,
    /// What runs in each turn.
    pub body: Script,
    /// Redirections of the whole loop.
    pub redirects: Vec<Redirect>,
}

/// `case subject in ... esac`: the patterns' words and the bodies.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// What is compared.
    pub subject: Word,
    /// All patterns.
    pub patterns: Vec<Word>,
    /// All bodies.
    pub bodies: Vec<Script>,
    /// Redirections of the whole.
    pub redirects: Vec<Redirect>,
}

/// One command.
#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    /// A simple command.
    Simple(Simple),
    /// Two or more commands, each one's output the next one's input.
    Pipe(Vec<Node>),
    /// `{ ...; }` or `( ... )`.
    Group {
        /// What runs.
        body: Script,
        /// True for `( ... )`.
        subshell: bool,
        /// Redirections of the whole.
        redirects: Vec<Redirect>,
    },
    /// A loop.
    Loop(Box<Loop>),
    /// Conditions and bodies in the order they stand.
    If {
        /// The conditions and bodies.
        branches: Vec<Script>,
        /// Redirections of the whole.
        redirects: Vec<Redirect>,
    },
    /// A case.
    Case(Box<Case>),
    /// A definition; nothing runs until the name is called.
    Function {
        /// The function's name.
        name: String,
        /// What a call runs.
        body: Rc<Node>,
    },
    /// `[[ ... ]]` or `(( ... ))`: only what its words substitute runs.
    Condition {
        /// Its words.
        words: Vec<Word>,
        /// Redirections of the whole.
        redirects: Vec<Redirect>,
    },
}

/// One command of a list and the operator after it: ";", "&", "&&", "||", newline or "" at the end.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// The command.
    pub node: Node,
    /// The operator after it.
    pub op: &'static str,
}

/// A list of commands. `partial` says in a word why the text was not read whole, "" where it was.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Script {
    /// The commands.
    pub items: Vec<Item>,
    /// Why the text was not read whole.
    pub partial: &'static str,
}
