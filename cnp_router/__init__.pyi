"""The public names, each listed once: ``__init__.py`` and type checkers read them here."""
# ruff: noqa: I001  (one import a room)

from cnp_router.agents import (
    CategoryFallback as CategoryFallback,
    offline_model as offline_model,
    organise as organise,
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
from cnp_router.datasets import (
    Dataset as Dataset,
    load_sample as load_sample,
    read_mtfm as read_mtfm,
    read_programmableweb as read_programmableweb,
)
from cnp_router.evaluation import (
    Comparison as Comparison,
    CompletionEvaluation as CompletionEvaluation,
    Evaluation as Evaluation,
    compare as compare,
    evaluate as evaluate,
    evaluate_completion as evaluate_completion,
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
    TranscriptError as TranscriptError,
    UnknownApiError as UnknownApiError,
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
    ChatModel as ChatModel,
    ChatRequest as ChatRequest,
    ChatResponse as ChatResponse,
    OfflineChatModel as OfflineChatModel,
    OpenAIChatModel as OpenAIChatModel,
    Usage as Usage,
    complete_sync as complete_sync,
    model_requests_allowed as model_requests_allowed,
)
from cnp_router.prediction import (
    AgentRun as AgentRun,
    BackoffPredictor as BackoffPredictor,
    ContextPredictor as ContextPredictor,
    FirstOrderPredictor as FirstOrderPredictor,
    Guards as Guards,
    NextTool as NextTool,
    NextToolPredictor as NextToolPredictor,
    NextToolRouter as NextToolRouter,
    Observer as Observer,
    OnlineStore as OnlineStore,
    ParameterHints as ParameterHints,
    Priors as Priors,
    Receipt as Receipt,
    RoutedTool as RoutedTool,
    RouterObserver as RouterObserver,
    RouterSettings as RouterSettings,
    Schedule as Schedule,
)
from cnp_router.protocols import (
    ContractNet as ContractNet,
    Ledger as Ledger,
    Outcome as Outcome,
    PROTOCOLS as PROTOCOLS,
    RoundSettings as RoundSettings,
    TrafficBudget as TrafficBudget,
    Transcript as Transcript,
    choose_protocol as choose_protocol,
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
from cnp_router.training import (
    CategoryClassifier as CategoryClassifier,
    LearnedRouter as LearnedRouter,
    fit_router as fit_router,
    load_router as load_router,
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
