"""The public names, each listed once: ``__init__.py`` and type checkers read them here."""
# ruff: noqa: I001  (one import a room)

from cnp_router.agents import (
    AnswerLimits as AnswerLimits,
    ApiEvidence as ApiEvidence,
    ApiSelection as ApiSelection,
    CategoryFallback as CategoryFallback,
    InterpretRequest as InterpretRequest,
    MatchFunction as MatchFunction,
    offline_model as offline_model,
    organise as organise,
    ServeFunction as ServeFunction,
    Task as Task,
)
from cnp_router.catalog import (
    Api as Api,
    Catalog as Catalog,
    Contractor as Contractor,
    LookAlikeWarning as LookAlikeWarning,
)
from cnp_router.checks import (
    check_router as check_router,
)
from cnp_router.constraints import (
    broken as broken,
    Preference as Preference,
    Problem as Problem,
    Rule as Rule,
    Solution as Solution,
    solve as solve,
)
from cnp_router.datasets import (
    Dataset as Dataset,
    load_sample as load_sample,
    read_mtfm as read_mtfm,
    read_programmableweb as read_programmableweb,
)
from cnp_router.evaluation import (
    compare as compare,
    Comparison as Comparison,
    CompletionEvaluation as CompletionEvaluation,
    compare_async as compare_async,
    evaluate as evaluate,
    evaluate_completion as evaluate_completion,
    Evaluation as Evaluation,
    prequential as prequential,
    PrequentialEvaluation as PrequentialEvaluation,
    write_report as write_report,
)
from cnp_router.exceptions import (
    BudgetExceededError as BudgetExceededError,
    ChatAccessError as ChatAccessError,
    ChatAnswerError as ChatAnswerError,
    ChatConnectionError as ChatConnectionError,
    ChatDisallowedError as ChatDisallowedError,
    ChatModelUnknownError as ChatModelUnknownError,
    ChatRateLimitError as ChatRateLimitError,
    ChatRequestError as ChatRequestError,
    ChatTimeoutError as ChatTimeoutError,
    ChatUnavailableError as ChatUnavailableError,
    CnpRouterError as CnpRouterError,
    ContextTooLongError as ContextTooLongError,
    DataFileError as DataFileError,
    DefinitionChangedError as DefinitionChangedError,
    ExecutionError as ExecutionError,
    InfeasibleError as InfeasibleError,
    InputError as InputError,
    LanguageModelError as LanguageModelError,
    MissingExtraError as MissingExtraError,
    ModelCorruptError as ModelCorruptError,
    ModelNotFoundError as ModelNotFoundError,
    ModelStoreError as ModelStoreError,
    ModelVersionError as ModelVersionError,
    NotFittedError as NotFittedError,
    ProtocolError as ProtocolError,
    RoundFailedError as RoundFailedError,
    SourceAnswerError as SourceAnswerError,
    SourceError as SourceError,
    SourceUnavailableError as SourceUnavailableError,
    TranscriptError as TranscriptError,
    UnknownApiError as UnknownApiError,
)
from cnp_router.forgetting import (
    Forgetting as Forgetting,
    Forgotten as Forgotten,
)
from cnp_router.execution import (
    allow_writes as allow_writes,
    Approval as Approval,
    Execution as Execution,
    ExecutionSettings as ExecutionSettings,
    Executor as Executor,
    Filler as Filler,
    Job as Job,
    JobEvent as JobEvent,
    JobReport as JobReport,
    Plan as Plan,
)
from cnp_router.graph import (
    TransitionGraph as TransitionGraph,
    draw_graph as draw_graph,
    export_graph as export_graph,
)
from cnp_router.history import (
    History as History,
    Mashup as Mashup,
)
from cnp_router.llm import (
    CachedChatModel as CachedChatModel,
    ChatMessage as ChatMessage,
    ChatModel as ChatModel,
    ChatRequest as ChatRequest,
    ChatResponse as ChatResponse,
    complete_sync as complete_sync,
    estimated_response as estimated_response,
    model_requests_allowed as model_requests_allowed,
    ModelPrice as ModelPrice,
    ModelsByRole as ModelsByRole,
    OfflineChatModel as OfflineChatModel,
    OpenAIChatModel as OpenAIChatModel,
    OpenAIEncoder as OpenAIEncoder,
    Prices as Prices,
    Usage as Usage,
    with_schema_in_prompt as with_schema_in_prompt,
    WrappedChatModel as WrappedChatModel,
)
from cnp_router.online import (
    Observer as Observer,
    OnlineStore as OnlineStore,
    Receipt as Receipt,
    Reputation as Reputation,
    RouterObserver as RouterObserver,
)
from cnp_router.prediction import (
    AgentRun as AgentRun,
    BackoffPredictor as BackoffPredictor,
    CalibratedPredictor as CalibratedPredictor,
    ChooseTool as ChooseTool,
    Context as Context,
    ContextPredictor as ContextPredictor,
    Decay as Decay,
    FirstOrderPredictor as FirstOrderPredictor,
    NextTool as NextTool,
    NextToolPolicy as NextToolPolicy,
    NextToolPredictor as NextToolPredictor,
    NextToolRouter as NextToolRouter,
    ParameterHints as ParameterHints,
    Priors as Priors,
    RoutedTool as RoutedTool,
    State as State,
)
from cnp_router.protocols import (
    Acting as Acting,
    Actor as Actor,
    AwardedApi as AwardedApi,
    choose_protocol as choose_protocol,
    ContractNet as ContractNet,
    Invitation as Invitation,
    Ledger as Ledger,
    AnnouncementPlan as AnnouncementPlan,
    NegotiatedProtocol as NegotiatedProtocol,
    Outcome as Outcome,
    Protocol as Protocol,
    PROTOCOLS as PROTOCOLS,
    Result as Result,
    Round as Round,
    RoundSettings as RoundSettings,
    TrafficBudget as TrafficBudget,
    Waves as Waves,
    Transcript as Transcript,
    validate as validate,
)
from cnp_router.routing import (
    BroadcastRouter as BroadcastRouter,
    Fallback as Fallback,
    HistoryKNNRouter as HistoryKNNRouter,
    MaxCost as MaxCost,
    PopularityRouter as PopularityRouter,
    RandomRouter as RandomRouter,
    Ranked as Ranked,
    Reason as Reason,
    RecallControl as RecallControl,
    Recipient as Recipient,
    Router as Router,
    Routing as Routing,
    Scores as Scores,
    SelectionRule as SelectionRule,
    SpecificationRouter as SpecificationRouter,
    TargetRecall as TargetRecall,
    TopK as TopK,
)
from cnp_router.sources import (
    A2aAgent as A2aAgent,
    Attachment as Attachment,
    Call as Call,
    CallFailure as CallFailure,
    CallProgress as CallProgress,
    CallResult as CallResult,
    FunctionSource as FunctionSource,
    LockFile as LockFile,
    McpServer as McpServer,
    OpenApiSource as OpenApiSource,
    read_sources as read_sources,
    Source as Source,
    Sources as Sources,
)
from cnp_router.testing import (
    FunctionChatModel as FunctionChatModel,
    ScriptedChatModel as ScriptedChatModel,
    ScriptedSource as ScriptedSource,
)
from cnp_router.timetable import (
    Board as Board,
    Course as Course,
    load_courses as load_courses,
    read_courses as read_courses,
    TimetableTools as TimetableTools,
)
from cnp_router.training import (
    CategoryClassifier as CategoryClassifier,
    Encoder as Encoder,
    LearnedRouter as LearnedRouter,
    fit_router as fit_router,
    fit_without as fit_without,
    load_router as load_router,
    verify_router as verify_router,
)
from cnp_router.trajectories import (
    Step as Step,
    Trajectory as Trajectory,
    read_trajectories as read_trajectories,
    read_trajectory as read_trajectory,
    write_trajectories as write_trajectories,
)
from cnp_router.version import (
    __version__ as __version__,
)
