//! A bound on the work of the SQL parser.
//!
//! The parser tries several readings of some constructs. It remembers readings that failed, but repeats one that
//! succeeded before a later token excluded it: nested `POSITION(x)` or `INTERVAL (x)` takes time exponential in its
//! depth. [`Bounded`] answers as the dialect of the database, counts the expressions that the parser begins, and ends
//! parsing when a statement has used up its number. Each reading of a nested construct begins an expression.

use std::any::TypeId;
use std::cell::Cell;
use std::iter::Peekable;
use std::str::Chars;

use sqlparser::ast::{ColumnOption, Expr, GranteesType, Ident, ObjectNamePart, Statement};
use sqlparser::dialect::{Dialect, Precedence};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};

/// The number of expressions that the parser may begin for each token. Most statements begin less than one.
const PER_TOKEN: usize = 4;

/// A dialect for one statement.
#[derive(Debug)]
pub(super) struct Bounded {
    dialect: &'static dyn Dialect,
    /// The number of expressions that the parser may still begin.
    left: Cell<usize>,
}

impl Bounded {
    /// Creates the dialect for a statement of this many tokens.
    pub(super) const fn new(dialect: &'static dyn Dialect, tokens: usize) -> Self {
        Self { dialect, left: Cell::new(tokens.saturating_mul(PER_TOKEN)) }
    }

    /// True if the statement took too many steps.
    pub(super) const fn is_spent(&self) -> bool {
        self.left.get() == 0
    }

    /// Counts the beginning of an expression. Once none is left, each one fails with the only error that the parser
    /// does not answer with another reading.
    fn begin(&self) -> Result<(), ParserError> {
        self.left.set(self.left.get().saturating_sub(1));
        if self.is_spent() { Err(ParserError::RecursionLimitExceeded) } else { Ok(()) }
    }
}

macro_rules! answered_by_the_dialect {
    ($($name:ident)*) => {
        $(fn $name(&self) -> bool {
            self.dialect.$name()
        })*
    };
}

// A method that is missing here would return the default of the trait instead of the answer of the dialect.
#[deny(clippy::missing_trait_methods)]
impl Dialect for Bounded {
    fn dialect(&self) -> TypeId {
        self.dialect.dialect()
    }

    fn parse_prefix(&self, parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
        match self.begin() {
            Ok(()) => self.dialect.parse_prefix(parser),
            Err(error) => Some(Err(error)),
        }
    }

    fn parse_infix(&self, parser: &mut Parser, expr: &Expr, precedence: u8) -> Option<Result<Expr, ParserError>> {
        self.dialect.parse_infix(parser, expr, precedence)
    }

    fn parse_statement(&self, parser: &mut Parser) -> Option<Result<Statement, ParserError>> {
        self.dialect.parse_statement(parser)
    }

    fn parse_column_option(
        &self,
        parser: &mut Parser,
    ) -> Result<Option<Result<Option<ColumnOption>, ParserError>>, ParserError> {
        self.dialect.parse_column_option(parser)
    }

    fn get_next_precedence(&self, parser: &Parser) -> Option<Result<u8, ParserError>> {
        self.dialect.get_next_precedence(parser)
    }

    fn get_next_precedence_default(&self, parser: &Parser) -> Result<u8, ParserError> {
        self.dialect.get_next_precedence_default(parser)
    }

    fn prec_value(&self, prec: Precedence) -> u8 {
        self.dialect.prec_value(prec)
    }

    fn prec_unknown(&self) -> u8 {
        self.dialect.prec_unknown()
    }

    fn is_delimited_identifier_start(&self, ch: char) -> bool {
        self.dialect.is_delimited_identifier_start(ch)
    }

    fn is_nested_delimited_identifier_start(&self, ch: char) -> bool {
        self.dialect.is_nested_delimited_identifier_start(ch)
    }

    fn peek_nested_delimited_identifier_quotes(&self, chars: Peekable<Chars<'_>>) -> Option<(char, Option<char>)> {
        self.dialect.peek_nested_delimited_identifier_quotes(chars)
    }

    fn identifier_quote_style(&self, identifier: &str) -> Option<char> {
        self.dialect.identifier_quote_style(identifier)
    }

    fn is_identifier_start(&self, ch: char) -> bool {
        self.dialect.is_identifier_start(ch)
    }

    fn is_identifier_part(&self, ch: char) -> bool {
        self.dialect.is_identifier_part(ch)
    }

    fn is_custom_operator_part(&self, ch: char) -> bool {
        self.dialect.is_custom_operator_part(ch)
    }

    fn is_reserved_for_identifier(&self, kw: Keyword) -> bool {
        self.dialect.is_reserved_for_identifier(kw)
    }

    fn get_reserved_keywords_for_select_item_operator(&self) -> &[Keyword] {
        self.dialect.get_reserved_keywords_for_select_item_operator()
    }

    fn get_reserved_grantees_types(&self) -> &[GranteesType] {
        self.dialect.get_reserved_grantees_types()
    }

    fn is_column_alias(&self, kw: &Keyword, parser: &mut Parser) -> bool {
        self.dialect.is_column_alias(kw, parser)
    }

    fn is_select_item_alias(&self, explicit: bool, kw: &Keyword, parser: &mut Parser) -> bool {
        self.dialect.is_select_item_alias(explicit, kw, parser)
    }

    fn is_table_factor(&self, kw: &Keyword, parser: &mut Parser) -> bool {
        self.dialect.is_table_factor(kw, parser)
    }

    fn is_table_alias(&self, kw: &Keyword, parser: &mut Parser) -> bool {
        self.dialect.is_table_alias(kw, parser)
    }

    fn is_table_factor_alias(&self, explicit: bool, kw: &Keyword, parser: &mut Parser) -> bool {
        self.dialect.is_table_factor_alias(explicit, kw, parser)
    }

    fn is_identifier_generating_function_name(&self, ident: &Ident, name_parts: &[ObjectNamePart]) -> bool {
        self.dialect.is_identifier_generating_function_name(ident, name_parts)
    }

    answered_by_the_dialect! {
            supports_string_literal_backslash_escape ignores_wildcard_escapes supports_unicode_string_literal
            supports_filter_during_aggregation supports_window_clause_named_window_reference
            supports_within_after_array_aggregation supports_partition_by_after_order_by supports_array_join_syntax
            supports_alter_user_as_alter_role supports_group_by_expr supports_group_by_with_modifier
            supports_left_associative_joins_without_parens supports_outer_join_operator supports_cross_join_constraint
            supports_connect_by supports_execute_immediate supports_match_recognize supports_in_empty_list
            supports_in_unparenthesized_expr supports_start_transaction_modifier supports_end_transaction_modifier
            supports_named_fn_args_with_eq_operator supports_named_fn_args_with_colon_operator
            supports_named_fn_args_with_assignment_operator supports_named_fn_args_with_rarrow_operator
            supports_named_fn_args_with_expr_name supports_numeric_prefix supports_numeric_literal_underscores
            supports_window_function_null_treatment_arg supports_dictionary_syntax support_map_literal_syntax
            supports_lambda_functions supports_parenthesized_set_variables supports_comma_separated_set_assignments
            supports_update_order_by supports_select_wildcard_except convert_type_before_value
            supports_triple_quoted_string supports_trailing_commas supports_limit_comma
            supports_string_literal_concatenation supports_string_literal_concatenation_with_newline
            supports_projection_trailing_commas supports_from_trailing_commas
            supports_column_definition_trailing_commas supports_object_name_double_dot_notation
            supports_struct_literal supports_empty_projections supports_select_expr_star supports_from_first_select
            supports_from_first_insert supports_pipe_operator supports_user_host_grantee supports_match_against
            supports_select_wildcard_exclude supports_select_exclude supports_create_table_multi_schema_info_sources
            supports_select_modifiers describe_requires_table_keyword allow_extract_custom allow_extract_single_quotes
            supports_extract_comma_syntax supports_subquery_as_function_arg supports_create_view_comment_syntax
            supports_array_typedef_without_element_type supports_parens_around_table_factor
            supports_values_as_table_factor supports_dollar_placeholder supports_dollar_as_money_prefix
            supports_create_index_with_clause require_interval_qualifier supports_explain_with_utility_options
            supports_asc_desc_in_column_definition supports_factorial_operator supports_bitwise_shift_operators
            supports_nested_comments supports_multiline_comment_hints supports_eq_alias_assignment
            supports_try_convert supports_bang_not_operator supports_listen_notify supports_exclude_constraint
            supports_load_data supports_load_extension supports_top_before_distinct supports_boolean_literals
            supports_show_like_before_in supports_comment_on supports_create_table_select
            supports_leading_comma_before_table_options supports_partiql supports_unpivot_expr
            supports_constraint_keyword_without_name supports_key_column_option supports_table_sample_before_alias
            supports_insert_set supports_insert_table_function supports_insert_table_query supports_insert_format
            supports_insert_table_alias supports_set_stmt_without_operator supports_table_versioning
            supports_string_escape_constant supports_table_hints requires_single_line_comment_whitespace
            supports_array_typedef_with_brackets supports_geometric_types supports_order_by_all
            supports_order_by_using_operator supports_set_names supports_space_separated_column_options
            supports_alter_column_type_using supports_comma_separated_drop_column_list supports_notnull_operator
            supports_data_type_signed_suffix supports_interval_options supports_create_table_like_parenthesized
            supports_semantic_view_table_factor supports_quote_delimited_string supports_comment_optimizer_hint
            supports_double_ampersand_operator supports_binary_kw_as_cast supports_select_wildcard_replace
            supports_select_wildcard_ilike supports_select_wildcard_rename supports_select_wildcard_with_alias
            supports_optimize_table supports_install supports_detach supports_prewhere supports_with_fill
            supports_limit_by supports_interpolate supports_settings supports_select_format
            supports_comma_separated_trim supports_cte_without_as supports_select_item_multi_column_alias
            supports_xml_expressions supports_aliased_function_args supports_create_table_using
            supports_long_type_as_bigint supports_map_literal_with_angle_brackets
    }
}

#[cfg(test)]
mod tests;
