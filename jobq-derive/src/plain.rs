//! The payloads whose types read whatever they write, told by their tokens.

use syn::{GenericArgument, PathArguments, Type};

use crate::signature::{Arguments, Role};

/// The types without parameters.
const PLAIN: [&str; 14] = [
    "bool", "char", "f64", "i8", "i16", "i32", "i64", "isize", "u8", "u16", "u32", "u64", "usize",
    "String",
];

/// Whether all arguments of the payload are plain. Attributes of serde may change what one writes or
/// reads.
pub(crate) fn are(arguments: &Arguments) -> bool {
    let mut fields = arguments.all.iter().filter(|argument| argument.role == Role::Payload);
    fields.all(|field| field.serde.is_empty() && is(&field.ty))
}

/// Whether the type is one of the plain ones, or an `Option` or a `Vec` of them.
fn is(ty: &Type) -> bool {
    let path = match ty {
        Type::Group(group) => return is(&group.elem),
        Type::Paren(paren) => return is(&paren.elem),
        Type::Path(path) if path.qself.is_none() && path.path.leading_colon.is_none() => &path.path,
        _ => return false,
    };
    // A type with a longer path is read back, which does no harm.
    let (Some(name), 1) = (path.segments.first(), path.segments.len()) else {
        return false;
    };
    match &name.arguments {
        PathArguments::None => PLAIN.iter().any(|plain| name.ident == plain),
        PathArguments::AngleBracketed(parameters) => {
            let parameters: Vec<_> = parameters.args.iter().collect();
            (name.ident == "Option" || name.ident == "Vec")
                && matches!(parameters[..], [GenericArgument::Type(inner)] if is(inner))
        }
        PathArguments::Parenthesized(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mistakes::Mistakes;
    use crate::signature::Function;

    #[test]
    fn plain_payloads_are_told_by_the_types_of_their_arguments() {
        let table = [
            ("", true),
            ("a: u64, b: String, c: bool, d: f64, e: char, f: isize", true),
            ("a: Option<Vec<Option<i8>>>, b: (u8)", true),
            ("a: u8, mailer: State<Mailer>, ctx: JobContext, #[context] b: Own", true),
            ("#[payload] a: State<u8>", false),
            ("a: u8, #[serde(default)] b: u8", false),
            ("a: i128", false),
            ("a: u128", false),
            ("a: f32", false),
            ("a: std::string::String", false),
            ("a: ::String", false),
            ("a: Vec<Own>", false),
            ("a: Option<u128>", false),
            ("a: HashMap<String, u8>", false),
            ("a: Vec", false),
            ("a: String<u8>", false),
            ("a: (u8, u8)", false),
            ("a: [u8; 4]", false),
            ("a: Own", false),
            ("a: <Own as Of>::u8", false),
        ];
        for (arguments, expected) in table {
            let function = format!("fn save({arguments}) -> Result<(), String> {{ todo!() }}");
            let mut function: Function = syn::parse_str(&function).unwrap();
            let mut mistakes = Mistakes::default();
            let arguments_read = Arguments::read(&mut function.signature, &mut mistakes);
            assert_eq!(are(&arguments_read), expected, "{arguments}");
        }
    }
}
